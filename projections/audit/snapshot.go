package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
)

// ErrRebuilding means that a rebuild is about to swap the tables that the audit reads.
var ErrRebuilding = errors.New("a rebuild of the read models is under way; try again when it is done")

// snapshot is one moment of the read models.
type snapshot struct {
	conn *pgx.Conn
	at   projector.Checkpoint
}

// openSnapshot waits until the read models hold the log up to head, or until patience
// ends, and takes the snapshot. It writes nothing. The connection holds a shared lock
// until it is closed. The lock keeps a rebuild from swapping the tables: a swap would
// change what the table names mean in the middle of the audit.
func openSnapshot(ctx context.Context, pool *pgxpool.Pool, head uint64, patience time.Duration) (*snapshot, error) {
	s := &snapshot{}
	err := s.open(ctx, pool, head, patience)
	if err != nil {
		s.close()
		const undefinedTable = "42P01"
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == undefinedTable {
			err = fmt.Errorf("there are none in the database of DATABASE_URL; a projector makes them: %w", err)
		}
		return nil, fmt.Errorf("read models: %w", err)
	}
	return s, nil
}

func (s *snapshot) open(ctx context.Context, pool *pgxpool.Pool, head uint64, patience time.Duration) error {
	cfg := pool.Config().ConnConfig.Copy()
	cfg.RuntimeParams["application_name"] = "memory-ledger audit"
	// A snapshot can stay open for many minutes, at times without a statement.
	cfg.RuntimeParams["idle_in_transaction_session_timeout"] = "0"
	cfg.RuntimeParams["enable_seqscan"] = "on" // whole tables are compared
	var err error
	if s.conn, err = pgx.ConnectConfig(ctx, cfg); err != nil {
		return err
	}
	if err := lockOut(ctx, s.conn, schema.LockKey("swap", schema.Name(pool)), patience); err != nil {
		return err
	}
	if err := catchUp(ctx, s.conn, head, patience); err != nil {
		return err
	}
	if _, err := s.conn.Exec(ctx, `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`); err != nil {
		return err
	}
	s.at, err = projector.ReadCheckpoint(ctx, s.conn)
	return err
}

// lockOut takes the shared lock that keeps a rebuild from swapping the tables. It waits
// while a rebuild holds the lock.
func lockOut(ctx context.Context, conn *pgx.Conn, key int64, patience time.Duration) error {
	mine := false
	err := within(ctx, patience, func() (bool, error) {
		err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock_shared($1)`, key).Scan(&mine)
		return mine, err
	})
	if err == nil && !mine {
		err = ErrRebuilding
	}
	return err
}

// catchUp waits for the projectors. It returns no error if they do not catch up in time:
// the caller compares positions and reports that.
func catchUp(ctx context.Context, conn *pgx.Conn, head uint64, patience time.Duration) error {
	return within(ctx, patience, func() (bool, error) {
		checkpoint, err := projector.ReadCheckpoint(ctx, conn)
		return checkpoint.Seq >= head, err
	})
}

// within calls done repeatedly until it returns true or an error, or patience ends.
func within(ctx context.Context, patience time.Duration, done func() (bool, error)) error {
	for until := time.Now().Add(patience); ; {
		if done, err := done(); err != nil || done || time.Now().After(until) {
			return err
		}
		if !eventlog.Pause(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
}

func (s *snapshot) close() {
	if s.conn != nil {
		schema.Disconnect(s.conn)
	}
}
