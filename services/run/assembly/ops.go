package assembly

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
)

// withOps runs a worker. If OPS_ADDR is set, it also answers /livez, /readyz and /metrics
// while the worker runs.
func withOps(ctx context.Context, b *Base, name string, ready func() error, run func(context.Context) error) error {
	if b.Config.OpsAddr == "" {
		return run(ctx)
	}
	listener, err := net.Listen("tcp", b.Config.OpsAddr)
	if err != nil {
		return fmt.Errorf("OPS_ADDR: %w", err)
	}
	b.Logger.Info("operations", "addr", listener.Addr().String())
	server := &http.Server{Handler: opsHandler(b, name, ready), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer server.Close()
		return run(ctx)
	})
	group.Go(func() error {
		if err := server.Serve(listener); ctx.Err() == nil && err != http.ErrServerClosed {
			return fmt.Errorf("OPS_ADDR: %w", err)
		}
		return nil
	})
	return group.Wait()
}

func opsHandler(b *Base, name string, ready func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answerProbe(w, name, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answerProbe(w, name, ready()) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(b.Registry, promhttp.HandlerOpts{}))
	return mux
}

func answerProbe(w http.ResponseWriter, name string, err error) {
	state := struct {
		OK     bool              `json:"ok"`
		Checks map[string]string `json:"checks"`
	}{err == nil, map[string]string{name: "ok"}}
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		state.Checks[name] = err.Error()
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(state) // the client may have gone
}
