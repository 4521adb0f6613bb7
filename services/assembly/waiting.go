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
)

const (
	// retryEvery is how often what failed is tried again, sayEvery how often the
	// log says that it still fails.
	retryEvery = 250 * time.Millisecond
	sayEvery   = 10 * time.Second
)

// waiting is for a machine that may still be coming up.
type waiting struct {
	what   string
	logger *slog.Logger
	// because tells what lies behind an error, as far as that is known by now, and
	// whether waiting on is of use.
	because func(error) (why error, known, hopeless bool)
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
		why, known, hopeless := w.because(err)
		if hopeless {
			return why
		}
		if ctx.Err() == nil && (known || again) && (said.IsZero() || time.Since(said) >= sayEvery) {
			said = time.Now()
			w.logger.Warn("waiting for "+w.what, "err", why)
		}
		select {
		case <-ctx.Done():
			return why
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
	return waiting{what: "the log's server", logger: logger, because: func(err error) (error, bool, bool) {
		last := nc.LastError()
		switch {
		case nc.IsClosed() && last != nil: // the client gives up only where it was refused
			return fmt.Errorf("the log's server refuses the credentials of NATS_URL or NATS_CREDS: %w", last), true, true
		case nc.IsConnected() && errors.Is(last, nats.ErrPermissionViolation):
			return fmt.Errorf("%w: %w", err, last), true, false
		case nc.IsConnected():
			return err, true, false
		case last != nil && !errors.Is(last, nats.ErrNoServers):
			return fmt.Errorf("connect to the log's server: %w", last), true, false
		}
		if dialed := failure.newest.Load(); dialed != nil {
			return fmt.Errorf("connect to the log's server: %w", *dialed), true, false
		}
		return err, false, false
	}}
}

// waitingForDatabase waits for PostgreSQL.
func waitingForDatabase(logger *slog.Logger) waiting {
	return waiting{what: "the database", logger: logger, because: func(err error) (error, bool, bool) {
		var refused *pgconn.PgError
		const authorization = "28" // the class of codes, of SQL
		if errors.As(err, &refused) && strings.HasPrefix(refused.Code, authorization) {
			return fmt.Errorf("the database refuses the credentials of DATABASE_URL: %w", err), true, true
		}
		return err, true, false
	}}
}
