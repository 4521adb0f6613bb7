package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/valyala/fasthttp"
)

// errStopping refuses a request that arrived after the service had begun to stop. The
// request was not run.
var errStopping = Refuse(http.StatusServiceUnavailable, "the service is stopping; try again")

// Serve answers requests on the listener until ctx ends, and on its open connections for up
// to a second more. Then it runs no further request. It returns when every begun answer is
// sent and its connection closed, or after grace. A request that is unfinished by then may
// be stored without an answer.
//
// Call it once. It does not use the HTTP server's own shutdown, which closes connections
// that are being read and forgets answers that it has not flushed.
func (a *App) Serve(ctx context.Context, inner net.Listener, grace time.Duration) error {
	connections := newListener(inner, cmp.Or(a.cfg.MaxConnections, DefaultConnections), a.cfg.Log)
	served := make(chan error, 1)
	go func() { served <- a.Listener(connections) }()
	select {
	case err := <-served:
		return fmt.Errorf("%s: serve: %w", a.cfg.Service, err)
	case <-ctx.Done():
	}
	_ = inner.Close() // this only ends Accept: a gateway connects to another server
	// A gateway sends more requests on the connections that it kept: each gets one more
	// answer, and then the gateway leaves it.
	connections.full.Store(true)
	connections.wait(time.Second)
	a.stop()
	connections.end()
	if err := <-served; err != nil {
		return fmt.Errorf("%s: stop: %w", a.cfg.Service, err)
	}
	connections.wait(grace)
	return nil
}

// isStopping reports whether the service has begun to stop.
func (a *App) isStopping() bool { return a.stopping.Err() != nil }

// refuseWhenStopping runs before everything else for each request. If another connection
// waits for a place, the request's connection closes after its answer.
func (a *App) refuseWhenStopping() {
	route := a.Server().Handler
	a.Server().Handler = func(ctx *fasthttp.RequestCtx) {
		if a.isStopping() {
			ctx.SetConnectionClose()
			a.refuseEarly(ctx, errStopping)
			return
		}
		route(ctx)
		if c, ok := ctx.Conn().(*conn); a.isStopping() || ok && c.of.full.Load() {
			ctx.SetConnectionClose()
		}
	}
}
