package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/projections/schema"
)

// waiting waits for a server that may still be starting.
type waiting struct {
	what    string
	logger  *slog.Logger
	because func(error) reason
	refused *refusals // of the log's server; nil if ask is never called
}

// reason is the cause of an error.
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
			w.logger.Warn("waiting for "+w.what, "err", found.why)
		}
		select {
		case <-ctx.Done():
			return found.why
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// dialFailure holds the error of the latest attempt to connect. The errors that the
// client returns do not contain it.
type dialFailure struct{ newest atomic.Pointer[error] }

func (d *dialFailure) option() nats.Option {
	return nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
		if !errors.Is(err, nats.ErrNoServers) { // it names no cause
			d.newest.Store(&err)
		}
	})
}

// dialLog connects to the log's server. The server may still be starting, so send
// requests through the returned waiting.
func dialLog(logger *slog.Logger, dial Connector) (*nats.Conn, waiting, error) {
	var failure dialFailure
	var refused refusals
	conn, err := dial(append(natsOptions(logger), failure.option(), refused.option(telling(logger)))...)
	if err != nil {
		return nil, waiting{}, fmt.Errorf("connect to the log's server: %w", err)
	}
	return conn, waitingForLog(logger, conn, &failure, &refused), nil
}

// waitingForLog waits for the log's server, over a connection that was made with the
// options of failure and refused.
func waitingForLog(logger *slog.Logger, nc *nats.Conn, failure *dialFailure, refused *refusals) waiting {
	return waiting{what: "the log's server", logger: logger, refused: refused, because: func(err error) reason {
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
		case isCode(err, jetstream.ErrorCode(10074)):
			return reason{why: fmt.Errorf("the log's server is alone: set NATS_REPLICAS=1, or give it a cluster: %w", err), hopeless: true}
		case nc.IsConnected():
			return reason{why: err}
		case last != nil && !errors.Is(last, nats.ErrNoServers):
			return reason{why: fmt.Errorf("connect to the log's server: %w", last)}
		}
		if dialed := failure.newest.Load(); dialed != nil {
			return reason{why: fmt.Errorf("connect to the log's server: %w", *dialed)}
		}
		return reason{why: err, guess: true}
	}}
}

func isCode(err error, code jetstream.ErrorCode) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == code
}

// waitingForDatabase waits for PostgreSQL.
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
