package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// errNotPermitted means that these credentials do not permit the request to the log's
// server.
var errNotPermitted = errors.New("the log's server does not permit it")

// refusals ends requests that the log's server does not permit. The server reports a
// refusal apart from its answers and never answers the refused request.
type refusals struct {
	mu      sync.Mutex
	waiting map[*context.CancelCauseFunc]struct{}
}

// option makes a connection report refusals to r. Other errors, and refusals while no
// request waits, go to say.
func (r *refusals) option(say nats.ErrHandler) nats.Option {
	return nats.ErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		if !errors.Is(err, nats.ErrPermissionViolation) || !r.heard(err) {
			say(nc, sub, err)
		}
	})
}

// heard ends all requests that wait, and reports whether there were any.
func (r *refusals) heard(err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for end := range r.waiting {
		(*end)(err)
	}
	return len(r.waiting) > 0
}

// during calls ask, which uses a connection that was made with option. If the server
// refuses a request, during ends at once with errNotPermitted.
func (r *refusals) during(ctx context.Context, ask func(context.Context) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	r.mu.Lock()
	if r.waiting == nil {
		r.waiting = make(map[*context.CancelCauseFunc]struct{})
	}
	r.waiting[&end] = struct{}{}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.waiting, &end)
	}()
	err := ask(ctx)
	if why := context.Cause(ctx); err != nil && errors.Is(why, nats.ErrPermissionViolation) {
		return fmt.Errorf("%w: %w", errNotPermitted, why)
	}
	return err
}

// telling returns a handler that logs the errors of a connection. Without a handler, the
// client would print them. An error that repeats is logged once a minute.
func telling(logger *slog.Logger) nats.ErrHandler {
	var mu sync.Mutex
	var said string
	var at time.Time
	return func(_ *nats.Conn, _ *nats.Subscription, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil || err.Error() == said && time.Since(at) < time.Minute {
			return
		}
		said, at = err.Error(), time.Now()
		logger.Warn("log connection", "err", err)
	}
}

// asAdmin connects for a tool that needs an administrator's permissions on a cluster.
func asAdmin(ctx context.Context, connect Connector, tool string, work func(context.Context, *nats.Conn) error) error {
	var refused refusals
	nc, err := connect(nats.Name("memory-ledger "+tool), refused.option(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return fmt.Errorf("connect to the log's server: %w", err)
	}
	defer nc.Close()
	err = refused.during(ctx, func(ctx context.Context) error { return work(ctx, nc) })
	if errors.Is(err, errNotPermitted) {
		return fmt.Errorf("%s needs the administrator's credentials in NATS_URL: %w", tool, err)
	}
	return err
}
