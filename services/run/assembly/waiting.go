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

const (
	// retryEvery is how often what failed is tried again, sayEvery how often the
	// log says that it still fails.
	retryEvery = 250 * time.Millisecond
	sayEvery   = 10 * time.Second
)

// waiting is for a machine that may still be coming up.
type waiting struct {
	what    string
	logger  *slog.Logger
	because func(error) reason
	refused *refusals // of the log's server; nil if ask is never called
}

// reason is what lies behind an error.
type reason struct {
	why      error
	guess    bool // nothing better is known by now
	hopeless bool // waiting on is of no use
}

// eventually repeats what fails until it succeeds, ctx ends, or nothing is to be
// hoped for. It says what it waits for as soon as it knows why, and every ten
// seconds again: a service that says nothing looks as if it hung.
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
		if ctx.Err() == nil && (!found.guess || again) && (said.IsZero() || time.Since(said) >= sayEvery) {
			said = time.Now()
			w.logger.Warn("waiting for "+w.what, "err", found.why)
		}
		select {
		case <-ctx.Done():
			return found.why
		case <-time.After(retryEvery):
		}
	}
}

// dialFailure is why the newest attempt to connect failed. The client keeps that
// to itself, and answers every question with what it means for the question.
type dialFailure struct{ newest atomic.Pointer[error] }

func (d *dialFailure) option() nats.Option {
	return nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
		if !errors.Is(err, nats.ErrNoServers) { // which says nothing
			d.newest.Store(&err)
		}
	})
}

// waitingForLog waits for the log's server, over a connection that was made with
// the option of failure.
func waitingForLog(logger *slog.Logger, nc *nats.Conn, failure *dialFailure) waiting {
	return waiting{what: "the log's server", logger: logger, because: func(err error) reason {
		last := nc.LastError()
		switch {
		case nc.IsClosed() && last != nil: // the client gives up only where it was refused
			return reason{why: fmt.Errorf("the log's server refuses the credentials of NATS_URL or NATS_CREDS: %w", last), hopeless: true}
		case errors.Is(err, errNotPermitted):
			return reason{why: fmt.Errorf("the log's streams are not there, or not for these credentials: run `ledger provision`, or mend NATS_URL: %w", err)}
		case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
			return reason{why: fmt.Errorf("nobody answers for JetStream at the log's server: does it run there, and for the account of these credentials? %w", err)}
		case isCode(err, noReplicasHere):
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

// noReplicasHere is the server's error where it is no cluster and is asked for
// more than one replica.
const noReplicasHere jetstream.ErrorCode = 10074

func isCode(err error, code jetstream.ErrorCode) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == code
}

// waitingForDatabase waits for PostgreSQL.
func waitingForDatabase(logger *slog.Logger) waiting {
	return waiting{what: "the database", logger: logger, because: func(err error) reason {
		var refused *pgconn.PgError
		const authorization = "28" // the class of codes, of SQL
		if errors.As(err, &refused) && strings.HasPrefix(refused.Code, authorization) {
			return reason{why: fmt.Errorf("the database refuses the credentials of DATABASE_URL: %w", err), hopeless: true}
		}
		if errors.Is(err, schema.ErrNewer) {
			return reason{why: err, hopeless: true}
		}
		return reason{why: err}
	}}
}
