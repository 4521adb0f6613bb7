package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Tables makes and checks the tables that a projector writes.
type Tables interface {
	// Have reports whether the tables match this build, and makes them if they do not. It
	// returns false if another build still works on them; the projector then stands by.
	// The caller holds the projector's locks.
	Have(ctx context.Context, conn *pgx.Conn) (bool, error)
	// Check returns an error if the tables do not match this build.
	Check(ctx context.Context, q schema.Querier) error
}

// migrations are the tables of the read models, as package schema makes them.
type migrations struct {
	databaseURL, schema string
	logger              *slog.Logger
}

// Have makes missing tables again: the log still has their contents. It returns
// schema.ErrNewer if a newer build has migrated the tables.
func (m migrations) Have(ctx context.Context, conn *pgx.Conn) (bool, error) {
	looking, cancel := context.WithTimeout(ctx, schema.LookTimeout)
	defer cancel()
	err := m.Check(looking, conn)
	var pg *pgconn.PgError
	const undefinedTable = "42P01"
	if !errors.As(err, &pg) || pg.Code != undefinedTable {
		return err == nil, err
	}
	m.logger.Warn("the tables of the read models are missing: they are made again, from the log")
	return true, schema.Migrate(ctx, m.databaseURL, m.schema)
}

func (m migrations) Check(ctx context.Context, q schema.Querier) error { return schema.Known(ctx, q) }

// takeTurn waits until no other projector works on the schema, and the tables match this
// build. It polls, because a statement that waits inside the database would
// hold back vacuum.
//
// After a failure, this projector's last session may still hold the locks until the
// database notices that the session has ended. So after a failure the projector stands by
// only when it finds the locks taken for the second time.
func (r *Runner) takeTurn(ctx context.Context, conn *pgx.Conn) error {
	failed, waits := r.Status().Err != nil, false
	for look := 1; ; look++ {
		mine, err := tryTurn(ctx, conn, r.cfg.Schema)
		if err != nil {
			return fmt.Errorf("take the locks of %s: %w", r.cfg.Name, err)
		}
		if mine {
			current, err := r.cfg.Tables.Have(ctx, conn)
			if err == nil && current {
				r.cfg.Turn(ctx, true)
			}
			if err != nil || current {
				return err
			}
			if err := unlockAll(ctx, conn); err != nil {
				return fmt.Errorf("release the locks of %s: %w", r.cfg.Name, err)
			}
		}
		if look > 1 || !failed {
			r.standBy()
			if !waits {
				waits = true
				r.cfg.Turn(ctx, false)
			}
		}
		// The random part keeps two projectors from retrying in step, where each would
		// always meet the other's shared lock.
		if !eventlog.Pause(ctx, standbyInterval+rand.N(standbyInterval/2)) {
			return ctx.Err()
		}
	}
}

// AloneKey is the key of the lock that the working projector of a schema shares. While a
// process holds it exclusively, no projector works on the schema.
func AloneKey(schemaName string) int64 { return schema.LockKey("projector", schemaName) }

func unlockAll(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, schema.LookTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, `SELECT pg_advisory_unlock_all()`)
	return err
}

// tryTurn takes the lock of the schema's projector, and shares that of AloneKey. The
// connection holds both until it closes. If it can't have both, it has neither.
func tryTurn(ctx context.Context, conn *pgx.Conn, schemaName string) (mine bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, schema.LookTimeout)
	defer cancel()
	err = conn.QueryRow(ctx, `SELECT CASE WHEN pg_try_advisory_lock($1) THEN pg_try_advisory_lock_shared($2) ELSE false END`,
		schema.LockKey("projector/turn", schemaName), AloneKey(schemaName)).Scan(&mine)
	if err == nil && !mine {
		err = unlockAll(ctx, conn)
	}
	return mine, err
}
