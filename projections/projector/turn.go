package projector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/memory-ledger/ledger/events/partition"
	"github.com/memory-ledger/ledger/projections/schema"
)

// lookTimeout bounds what the database does at once where it is well: try the
// locks, answer a ping. A database that went silent would else hold a standby,
// which then stays ready, until the kernel gives the connection up.
const lookTimeout = 5 * time.Second

// takeTurn waits until no other projector works on any of the partitions. It
// asks again and again rather than wait inside the database, where a waiting
// statement would hold back vacuum.
//
// After a failure the locks may still be those of this projector's last session,
// whose end the database has yet to notice. Whoever finds them taken a second
// time stands by.
func (r *Runner) takeTurn(ctx context.Context, conn *pgx.Conn) error {
	failed := r.Status().Err != nil
	for look := 1; ; look++ {
		mine, err := tryTurn(ctx, conn, schema.Name(r.cfg.Pool), r.cfg.Partitions)
		if err != nil {
			return fmt.Errorf("take the projector's locks: %w", err)
		}
		if mine {
			return nil
		}
		if look > 1 || !failed {
			r.standBy()
		}
		if !pause(ctx, standbyInterval) {
			return ctx.Err()
		}
	}
}

// takeLocksSQL takes one lock after the other and stops at the first that is not
// to be had: of two that want the same, the one who gets the first gets all.
// The last one builds that knew no partitions took alone to work; those who
// share the partitions share it, and so keep such a build out, or are kept out.
const takeLocksSQL = `WITH RECURSIVE take(n, mine) AS (
		SELECT 1, pg_try_advisory_lock(($1::bigint[])[1])
	UNION ALL
		SELECT n + 1, pg_try_advisory_lock(($1::bigint[])[n + 1]) FROM take WHERE mine AND n < cardinality($1::bigint[])
	) SELECT CASE WHEN bool_and(mine) THEN pg_try_advisory_lock_shared($2) ELSE false END FROM take`

// tryTurn takes all locks or none. They last as long as the connection.
func tryTurn(ctx context.Context, conn *pgx.Conn, schemaName string, run partition.Run) (mine bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	keys := make([]int64, 0, run.Count())
	for p := run.First; p < run.End; p++ {
		keys = append(keys, schema.LockKey(fmt.Sprintf("projector/%02x", p), schemaName))
	}
	if err := conn.QueryRow(ctx, takeLocksSQL, keys, schema.LockKey("projector", schemaName)).Scan(&mine); err != nil {
		return false, err
	}
	if !mine {
		_, err = conn.Exec(ctx, `SELECT pg_advisory_unlock_all()`)
	}
	return mine, err
}

// haveTables makes the tables again where somebody took them away: what they held is in
// the log. It returns schema.ErrNewer where a newer build has migrated them.
func (r *Runner) haveTables(ctx context.Context, conn *pgx.Conn) error {
	looking, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	err := schema.Known(looking, conn)
	var pg *pgconn.PgError
	const undefinedTable = "42P01"
	if !errors.As(err, &pg) || pg.Code != undefinedTable {
		return err
	}
	r.cfg.Logger.Warn("the tables of the read models are not there: they are made again, from the log")
	return schema.Migrate(ctx, r.cfg.Pool.Config().ConnString(), schema.Name(r.cfg.Pool))
}

// takeRows returns the rows of the partitions, whose locks the caller holds. It
// cuts those that reach beyond the run, so that each row is one projector's, and joins those at the same
// sequence. A crash leaves them as they were, or cut and joined, which changes
// nothing that they say.
func (r *Runner) takeRows(ctx context.Context, conn *pgx.Conn) (at Checkpoint, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.ApplyTimeout)
	defer cancel()
	run := r.cfg.Partitions
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// Of two that would cut the same row the second must see what the first
		// made of it, which a lock on the row alone would not show. A row that
		// reaches beyond the run is nobody else's: who works on a part of it
		// would have cut it.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, schema.LockKey("cut", schema.Name(r.cfg.Pool))); err != nil {
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
		is := was.Of(partition.Run{First: around.First, End: run.First})
		is = append(append(is, at.Vector...), was.Of(partition.Run{First: run.End, End: around.End})...)
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
