package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Tables makes and checks the tables that a projector writes.
type Tables interface {
	// Have makes the tables if they are missing or, where they are only a cache, do not match
	// this build. The caller holds the projector's lock.
	Have(ctx context.Context, conn *pgx.Conn) error
	// Check returns an error if the tables do not match this build.
	Check(ctx context.Context, q schema.Querier) error
}

// migrations are the tables of the read models, as package schema makes them.
type migrations struct {
	pool   *pgxpool.Pool
	logger *slog.Logger
}

// Have makes missing tables again: the log still has their contents. It returns
// schema.ErrNewer if a newer build has migrated the tables.
func (m migrations) Have(ctx context.Context, conn *pgx.Conn) error {
	looking, cancel := context.WithTimeout(ctx, schema.LookTimeout)
	defer cancel()
	err := m.Check(looking, conn)
	var pg *pgconn.PgError
	const undefinedTable = "42P01"
	if !errors.As(err, &pg) || pg.Code != undefinedTable {
		return err
	}
	m.logger.Warn("the tables of the read models are missing: they are made again, from the log")
	return schema.Migrate(ctx, m.pool)
}

func (m migrations) Check(ctx context.Context, q schema.Querier) error { return schema.Known(ctx, q) }

// takeTurn waits until no other projector works on the schema, and makes sure that the
// tables match this build. It polls, because a statement that waits inside the database would
// hold back vacuum.
//
// After a failure, this projector's last session may still hold the lock until the
// database notices that the session has ended. So after a failure the projector stands by
// only when it finds the lock taken for the second time.
func (r *Runner) takeTurn(ctx context.Context, conn *pgx.Conn) error {
	failed, waits := r.Status().Err != nil, false
	for look := 1; ; look++ {
		mine, err := tryTurn(ctx, conn, r.cfg.Schema)
		if err != nil {
			return fmt.Errorf("take the lock of %s: %w", r.cfg.Name, err)
		}
		if mine {
			if err := r.cfg.Tables.Have(ctx, conn); err != nil {
				return err
			}
			r.cfg.Turn(ctx, true)
			return nil
		}
		if look > 1 || !failed {
			r.standBy()
			if !waits {
				waits = true
				r.cfg.Turn(ctx, false)
			}
		}
		if !eventlog.Pause(ctx, standbyInterval) {
			return ctx.Err()
		}
	}
}

// tryTurn takes the lock of the schema's projector. The connection holds it until it closes.
func tryTurn(ctx context.Context, conn *pgx.Conn, schemaName string) (mine bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, schema.LookTimeout)
	defer cancel()
	err = conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, schema.LockKey("projector/turn", schemaName)).Scan(&mine)
	return mine, err
}
