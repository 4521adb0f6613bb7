package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/schema"
)

// lookTimeout bounds operations that a healthy database finishes at once: trying the
// locks, answering a ping. Without the bound, a silent database would block a standby,
// which reports itself ready, until the kernel gives up the connection.
const lookTimeout = 5 * time.Second

// Tables makes and checks the tables that a projector writes.
type Tables interface {
	// Have reports whether the tables match this build, and makes them if they do not. It
	// returns false if another build still works on them; the projector then stands by.
	// The caller holds the locks of its partitions, and shares the lock of AloneKey with
	// the projectors of the other partitions.
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
	looking, cancel := context.WithTimeout(ctx, lookTimeout)
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

// takeTurn waits until no other projector works on any of the partitions, and the tables
// match this build. It polls, because a statement that waits inside the database would
// hold back vacuum.
//
// After a failure, this projector's last session may still hold the locks until the
// database notices that the session has ended. So after a failure the projector stands by
// only when it finds the locks taken for the second time.
func (r *Runner) takeTurn(ctx context.Context, conn *pgx.Conn) error {
	failed, waits := r.Status().Err != nil, false
	for look := 1; ; look++ {
		mine, err := tryTurn(ctx, conn, r.cfg.Schema, r.cfg.Partitions)
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

// AloneKey is the key of the lock that all projectors of a schema share. While a process
// holds it exclusively, no projector works on the schema.
func AloneKey(schemaName string) int64 { return schema.LockKey("projector", schemaName) }

func unlockAll(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, `SELECT pg_advisory_unlock_all()`)
	return err
}

// takeLocksSQL takes the locks one by one and stops at the first that is taken. If two
// projectors want the same locks, the one that gets the first lock gets all. The last
// lock is that of AloneKey, which projectors share.
const takeLocksSQL = `WITH RECURSIVE take(n, mine) AS (
		SELECT 1, pg_try_advisory_lock(($1::bigint[])[1])
	UNION ALL
		SELECT n + 1, pg_try_advisory_lock(($1::bigint[])[n + 1]) FROM take WHERE mine AND n < cardinality($1::bigint[])
	) SELECT CASE WHEN bool_and(mine) THEN pg_try_advisory_lock_shared($2) ELSE false END FROM take`

// tryTurn takes all locks or none. The connection holds them until it closes.
func tryTurn(ctx context.Context, conn *pgx.Conn, schemaName string, run events.Partitions) (mine bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	keys := make([]int64, 0, run.Count())
	for p := run.First; p < run.End; p++ {
		keys = append(keys, schema.LockKey(fmt.Sprintf("projector/%02x", p), schemaName))
	}
	if err := conn.QueryRow(ctx, takeLocksSQL, keys, AloneKey(schemaName)).Scan(&mine); err != nil {
		return false, err
	}
	if !mine {
		return false, unlockAll(ctx, conn)
	}
	return true, nil
}

// takeRows returns the checkpoint's rows of the partitions, whose locks the caller holds.
// It cuts rows that reach beyond the run, so that each row belongs to one projector, and
// joins neighbors at the same sequence. A crash leaves either the old rows or the new
// ones; both mean the same.
func (r *Runner) takeRows(ctx context.Context, conn *pgx.Conn) (at Checkpoint, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.ApplyTimeout)
	defer cancel()
	run := r.cfg.Partitions
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// If two projectors cut the same row, the second must see the rows that the first
		// made. A lock on the row alone would not show them. No other projector works on
		// a row that reaches beyond the run, because it would have cut that row.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, schema.LockKey("cut", r.cfg.Schema)); err != nil {
			return err
		}
		was, err := ReadCheckpointOf(ctx, tx, run, "FOR UPDATE")
		if err != nil {
			return err
		}
		at = Checkpoint{Generation: was.Generation, Vector: was.Of(run).Joined()}
		if !at.Covers(run) {
			return fmt.Errorf("%w %s: %s", ErrIncomplete, run, was)
		}
		around := was.Run()
		is := was.Of(events.Partitions{First: around.First, End: run.First})
		is = append(append(is, at.Vector...), was.Of(events.Partitions{First: run.End, End: around.End})...)
		if is.Equal(was.Vector) {
			return nil
		}
		sql, args := advance{was.Generation, was.Vector, is}.statement()
		_, err = tx.Exec(ctx, sql, args...)
		return explain(err)
	})
	if err != nil {
		return at, fmt.Errorf("take the rows of the checkpoint: %w", err)
	}
	return at, nil
}
