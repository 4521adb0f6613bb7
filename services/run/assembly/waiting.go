package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events/eventlog"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/run/config"
)

// waiting waits for a server that may still be starting.
type waiting struct {
	what    string
	logger  *slog.Logger
	because func(error) reason
	refused *refusals // of the log's server; nil if ask is never called
}

// WaitingFor begins the warning that names the server that a start waits for.
const WaitingFor = "waiting for "

type reason struct {
	why      error
	guess    bool // the cause is not known yet
	hopeless bool // more waiting does not help
}

// eventually repeats do until it succeeds, ctx ends, or more waiting does not help. It
// logs the server that it waits for as soon as it knows the cause, and again every ten
// seconds: a service that logs nothing looks stuck.
func (w waiting) eventually(ctx context.Context, do func() error) error {
	var said time.Time
	for again := false; ; again = true {
		err := do()
		if err == nil {
			return nil
		}
		found := w.because(err)
		if found.hopeless {
			return found.why
		}
		if ctx.Err() == nil && (!found.guess || again) && (said.IsZero() || time.Since(said) >= 10*time.Second) {
			said = time.Now()
			w.logger.Warn(WaitingFor+w.what, "err", found.why)
		}
		if !eventlog.Pause(ctx, 250*time.Millisecond) {
			return found.why
		}
	}
}

// dialLog connects to the log's server. The server may still be starting, so send
// requests through the returned waiting.
func dialLog(logger *slog.Logger, dial Connector) (*nats.Conn, waiting, error) {
	// The errors that the client returns do not say why it could not connect.
	var newest atomic.Pointer[error]
	noteFailure := nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
		if !errors.Is(err, nats.ErrNoServers) { // it names no cause
			newest.Store(&err)
		}
	})
	var refused refusals
	nc, err := dial(append(natsOptions(logger), noteFailure, refused.option(telling(logger)))...)
	if err != nil {
		return nil, waiting{}, fmt.Errorf("connect to the log's server: %w", err)
	}
	return nc, waiting{what: "the log's server", logger: logger, refused: &refused, because: func(err error) reason {
		last := nc.LastError()
		switch {
		case nc.IsClosed() && last != nil: // the client gives up only if it was refused
			return reason{why: fmt.Errorf("the log's server refuses the credentials of NATS_URL or NATS_CREDS: %w", last), hopeless: true}
		case errors.Is(err, errNotPermitted):
			return reason{why: fmt.Errorf("the log's streams are not there, or not for these credentials: run `ledger provision`, or mend NATS_URL: %w", err)}
		case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
			return reason{why: fmt.Errorf("JetStream does not answer at the log's server: is it enabled there, and for the account of these credentials? %w", err)}
		// This is the error of a server outside a cluster if a stream needs more than one
		// replica.
		case errors.Is(err, &jetstream.APIError{ErrorCode: 10074}):
			return reason{why: fmt.Errorf("the log's server is alone: set NATS_REPLICAS=1, or give it a cluster: %w", err), hopeless: true}
		case nc.IsConnected():
			return reason{why: err}
		case last != nil && !errors.Is(last, nats.ErrNoServers):
			return reason{why: fmt.Errorf("connect to the log's server: %w", last)}
		}
		if dialed := newest.Load(); dialed != nil {
			return reason{why: fmt.Errorf("connect to the log's server: %w", *dialed)}
		}
		return reason{why: err, guess: true}
	}}, nil
}

func waitingForDatabase(logger *slog.Logger) waiting {
	return waiting{what: "the database", logger: logger, because: func(err error) reason {
		var refused *pgconn.PgError
		const authorization = "28" // the SQLSTATE class
		if errors.As(err, &refused) && strings.HasPrefix(refused.Code, authorization) {
			return reason{why: fmt.Errorf("the database refuses the credentials of DATABASE_URL: %w", err), hopeless: true}
		}
		if errors.Is(err, schema.ErrNewer) {
			return reason{why: err, hopeless: true}
		}
		return reason{why: err}
	}}
}

// errNotPermitted means that these credentials do not permit the request to the log's
// server.
var errNotPermitted = errors.New("the log's server does not permit it")

// refusals ends a request that the log's server does not permit. The server reports a
// refusal apart from its answers and never answers the refused request.
type refusals struct {
	end atomic.Pointer[context.CancelCauseFunc] // of the request that waits; nil if none does
}

// option makes a connection report refusals to r. Other errors, and refusals while no
// request waits, go to say.
func (r *refusals) option(say nats.ErrHandler) nats.Option {
	return nats.ErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		if end := r.end.Load(); end != nil && errors.Is(err, nats.ErrPermissionViolation) {
			(*end)(err)
		} else {
			say(nc, sub, err)
		}
	})
}

// during calls ask, which uses a connection that was made with option. If the server
// refuses a request, during ends at once with errNotPermitted. Starts and tools ask one
// thing after the other.
func (r *refusals) during(ctx context.Context, ask func(context.Context) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	r.end.Store(&end)
	defer r.end.Store(nil)
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
func asAdmin(ctx context.Context, cfg config.Config, tool string, work func(context.Context, *nats.Conn) error) error {
	var refused refusals
	nc, err := Dial(cfg)(nats.Name("memory-ledger "+tool), refused.option(func(*nats.Conn, *nats.Subscription, error) {}))
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

// Provision creates the log, the buckets and the consumers, or changes them to this
// build's configuration. It needs the administrator's credentials, and waits for a
// cluster that is still electing its leader. A crash leaves some of them created or
// changed; run Provision again. It returns the streams, buckets and consumers that exist
// at the end.
func Provision(ctx context.Context, cfg config.Config, logger *slog.Logger, dial Connector) (made []natsconf.Made, err error) {
	// This is how long a cluster may take to elect a leader. On a loaded machine, a cluster
	// lost its leader and took a minute to elect another.
	starting, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	conn, waits, err := dialLog(logger, dial)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	// This bounds one request. Nodes that elect their leader drop requests without an answer,
	// so waiting longer would not help.
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(3*time.Second))
	if err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	waits.because = unlessInVain(waits.because)
	err = waits.eventually(starting, func() error {
		// Not with starting's deadline: each request has its own.
		return waits.refused.during(ctx, func(ctx context.Context) (err error) {
			made, err = natsconf.Provision(ctx, js, cfg.NATSReplicas)
			return err
		})
	})
	return made, err
}

// unlessInVain adds the errors that waiting can't fix: missing permissions, and settings
// that the cluster can't have.
func unlessInVain(because func(error) reason) func(error) reason {
	return func(err error) reason {
		var answer *jetstream.APIError
		switch {
		case errors.Is(err, errNotPermitted):
			return reason{why: fmt.Errorf("provision needs the administrator's credentials in NATS_URL: %w", err), hopeless: true}
		// This is the server's error while too few nodes have joined for the replicas.
		case errors.Is(err, natsconf.ErrFewer), errors.As(err, &answer) && answer.Code == http.StatusBadRequest && answer.ErrorCode != jetstream.ErrorCode(10005):
			return reason{why: err, hopeless: true}
		}
		return because(err)
	}
}
