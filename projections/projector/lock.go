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

// lookTimeout bounds what a healthy database does at once: try the locks, answer a
// ping. Without it a silent database would hold a standby, which stays ready, until the
// kernel gives up the connection.
const lookTimeout = 5 * time.Second

// Tables makes and checks the tables that a projector writes.
type Tables interface {
	// Have reports whether the tables are as this build makes them, and makes them where
	// they are not. It reports false where another build still works on them: the
	// projector then stands by. The caller holds the locks of its partitions, and
	// shares the lock of AloneKey with the projectors of the other partitions.
	Have(ctx context.Context, conn *pgx.Conn) (bool, error)
	// Check returns an error where the tables are not as this build makes them.
	Check(ctx context.Context, q schema.Querier) error
}

// migrations are the tables of the read models, as package schema makes them.
type migrations struct {
	databaseURL, schema string
	logger              *slog.Logger
}

// Have makes the tables again where they are missing: the log has what they held. It
// returns schema.ErrNewer where a newer build has migrated them.
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

// takeTurn waits until no other projector works on any of the partitions, and the
// tables are as this build makes them. It polls: a statement that waits inside the
// database would hold back vacuum.
//
// After a failure this projector's last session may still hold the locks, until the
// database notices that it has ended. A projector that finds them taken a second time
// stands by.
func (r *Runner) takeTurn(ctx context.Context, conn *pgx.Conn) error {
	failed := r.Status().Err != nil
	for look := 1; ; look++ {
		mine, err := tryTurn(ctx, conn, r.cfg.Schema, r.cfg.Partitions)
		if err != nil {
			return fmt.Errorf("take the locks of %s: %w", r.cfg.Name, err)
		}
		if mine {
			current, err := r.cfg.Tables.Have(ctx, conn)
			if err != nil || current {
				return err
			}
			if err := unlockAll(ctx, conn); err != nil {
				return fmt.Errorf("release the locks of %s: %w", r.cfg.Name, err)
			}
		}
		if look > 1 || !failed {
			r.standBy()
		}
		// The random part keeps two projectors from retrying in step, each waiting for the
		// other's shared lock.
		if !eventlog.Pause(ctx, standbyInterval+rand.N(standbyInterval/2)) {
			return ctx.Err()
		}
	}
}

// AloneKey is the key of the lock that all projectors of a schema share. Taken alone, no
// projector works on the schema.
func AloneKey(schemaName string) int64 { return schema.LockKey("projector", schemaName) }

func unlockAll(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, `SELECT pg_advisory_unlock_all()`)
	return err
}

// takeLocksSQL takes one lock after the other and stops at the first that is
// taken: of two projectors that want the same locks, the one that gets the first gets
// all. The last lock is the one of AloneKey, which projectors share.
const takeLocksSQL = `WITH RECURSIVE take(n, mine) AS (
		SELECT 1, pg_try_advisory_lock(($1::bigint[])[1])
	UNION ALL
		SELECT n + 1, pg_try_advisory_lock(($1::bigint[])[n + 1]) FROM take WHERE mine AND n < cardinality($1::bigint[])
	) SELECT CASE WHEN bool_and(mine) THEN pg_try_advisory_lock_shared($2) ELSE false END FROM take`

// tryTurn takes all locks or none. They last as long as the connection.
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

// takeRows returns the checkpoint's rows of the partitions, whose locks the caller
// holds. It cuts rows that reach beyond the run, so that each row belongs to one
// projector, and joins neighbors at the same sequence. A crash leaves the rows as
// they were, or cut and joined, which means the same.
func (r *Runner) takeRows(ctx context.Context, conn *pgx.Conn) (at Checkpoint, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.ApplyTimeout)
	defer cancel()
	run := r.cfg.Partitions
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// Of two projectors that cut the same row, the second must see the rows that
		// the first made, which a lock on the row alone would not show. No other
		// projector works on a row that reaches beyond the run: it would have cut it.
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
