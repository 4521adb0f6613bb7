package assembly

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/infra/localchain"
	"github.com/memory-ledger/ledger/infra/localchain/localchaintest"
)

// A local chain that ends is spoken of, unless the run is ending, or it never was
// up.
func TestALocalChainThatEnds(t *testing.T) {
	t.Parallel()
	up := &localChain{done: make(chan struct{}), server: localchaintest.Start(t, localchain.Config{})}
	said := func(ctx context.Context, c *localChain, meanwhile func()) string {
		var text strings.Builder
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			c.watch(ctx, slog.New(slog.NewTextHandler(&text, nil)))
		}()
		meanwhile()
		<-watched
		return text.String()
	}
	stopping, stop := context.WithCancel(t.Context())
	if text := said(stopping, up, stop); text != "" {
		t.Errorf("a run that stops while its chain starts said %s", text)
	}
	close(up.done)
	if text := said(stopping, up, func() {}); text != "" {
		t.Errorf("a run that stops said %s", text)
	}
	if text := said(t.Context(), up, up.server.Kill); strings.Count(text, "\n") != 1 || !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "the local chain ended by itself") {
		t.Errorf("a chain that was killed: %q", text)
	}
	if text := said(stopping, up, func() {}); text != "" {
		t.Errorf("a run that stopped with its chain said %s", text)
	}
	never := &localChain{done: up.done, err: errors.New("no Node")}
	if text := said(t.Context(), never, func() {}); text != "" {
		t.Errorf("a chain that never was up: %s", text)
	}
}
