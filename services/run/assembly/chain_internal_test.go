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

// TestALocalChainThatEnds: a local chain that ends is restarted with its saved state,
// unless the run is stopping or the chain was never up.
func TestALocalChainThatEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	cfg := localchain.Config{DataDir: t.TempDir()}
	first := localchaintest.Start(t, cfg)
	cfg.Addr = strings.TrimPrefix(first.URL(), "http://")
	up := &localChain{cancel: func() {}, cfg: cfg, done: make(chan struct{}), server: first}
	said := func(ctx context.Context, c *localChain, meanwhile func()) string {
		var text strings.Builder
		kept := make(chan struct{})
		go func() {
			defer close(kept)
			c.keep(ctx, slog.New(slog.NewTextHandler(&text, nil)))
		}()
		meanwhile()
		<-kept
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
	first.Kill()
	if err := up.restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := up.stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if up.server.URL() != first.URL() || up.server.GenesisHash() != first.GenesisHash() {
		t.Errorf("%s of %s is in the place of %s of %s", up.server.URL(), up.server.GenesisHash(), first.URL(), first.GenesisHash())
	}
	taken := &localChain{cfg: cfg, done: up.done, server: first} // its folder is in use
	if text := said(t.Context(), taken, func() {}); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "memories stay unanchored until the next start") {
		t.Errorf("a chain that can't be started again: %q", text)
	}
	never := &localChain{done: up.done, err: errors.New("no Node")}
	if text := said(t.Context(), never, func() {}); text != "" {
		t.Errorf("a chain that never was up: %s", text)
	}
}
