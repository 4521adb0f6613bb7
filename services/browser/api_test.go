package browser

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/services/assembly"
	"github.com/memory-ledger/ledger/services/config"
)

// startAPI runs the extension API and the projector that it needs, as the
// services of a deployment are put together, and returns the base URL.
func startAPI(t *testing.T, allowedOrigin string) string {
	t.Helper()
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	addr := freeAddress(t)
	cfg, err := config.Load([]string{
		"NATS_URL=" + natstest.Start(t).URL(), "DATABASE_URL=" + pgtest.Database(t),
		"MASTER_KEY=" + base64.StdEncoding.EncodeToString(key),
		"EXTENSION_ADDR=" + addr, "EXTENSION_ALLOWED_ORIGINS=" + allowedOrigin,
	})
	if err != nil {
		t.Fatal(err)
	}
	base, err := assembly.NewBase(t.Context(), cfg, slog.New(slog.NewTextHandler(io.Discard, nil)), assembly.Dial(cfg))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var services errgroup.Group
	services.Go(func() error { return assembly.RunProjector(ctx, base) })
	services.Go(func() error { return assembly.RunExtension(ctx, base) })
	t.Cleanup(func() {
		cancel()
		if err := services.Wait(); err != nil {
			t.Error(err)
		}
		base.Close()
	})
	awaitReady(t, cfg.ExtensionURL)
	return cfg.ExtensionURL
}

// freeAddress returns an address that was free a moment ago. The API has to
// know its public URL before it listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// awaitReady asks until the API is ready: it answers only then.
func awaitReady(t *testing.T, base string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				tick.Stop()
				return
			}
		}
		select {
		case <-ctx.Done():
			t.Fatal("the API did not get ready:", err)
		case <-tick.C:
		}
	}
}
