package rebuild

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
)

// swapLockTimeout is how long the swap may wait for a lock, and so how long others may have
// to wait behind it. It is shorter than PostgreSQL's deadlock_timeout, so in a deadlock the
// swap gives way.
const swapLockTimeout = "500ms"

// swapIn waits for audits that read the live tables, catches up, and swaps.
func (r *rebuild) swapIn(ctx context.Context) error {
	// Table names must not change their meaning during an audit; see the audit's
	// snapshot.
	key := schema.LockKey("swap", r.live)
	if _, err := r.control.Exec(ctx, `SELECT pg_advisory_lock($1)`, key); err != nil {
		return fmt.Errorf("wait for audits: %w", err)
	}
	defer func() { _, _ = r.control.Exec(ctx, `SELECT pg_advisory_unlock($1)`, key) }() // otherwise the connection's end releases it
	for attempt := 1; ; attempt++ {
		target, err := r.target(ctx)
		if err != nil {
			return err
		}
		if err := r.replayer.To(ctx, target); err != nil {
			return err
		}
		was, err := r.swap(ctx)
		if err == nil {
			r.result.Swapped, r.result.Position = true, r.replayer.At()
			if err := r.awaitReaders(ctx, was); err != nil {
				return err
			}
			r.say("swapped in at sequence %d; projectors were held back for %s", r.replayer.At(), r.result.Held.Round(time.Millisecond))
			return nil
		}
		if !inUse(err) || attempt == 60 {
			return fmt.Errorf("swap: %w", err)
		}
		if err := r.giveWay(ctx); err != nil {
			return err
		}
	}
}

// awaitReaders returns once no fence trusts the old tables. Each fence holds a lock of
// their generation until it has dropped the data that it cached from them. If a service
// does not answer the database, awaitReaders gives up after a while.
func (r *rebuild) awaitReaders(ctx context.Context, generation string) error {
	key := schema.GenerationKey(r.live, generation)
	const timeout = 10 * time.Second // longer than a fence takes to give up on a connection
	err := r.advisoryLock(ctx, key, timeout)
	if inUse(err) {
		r.say("a service has not noticed the new tables after %s; it may answer from what it kept of the old ones until it does", timeout)
		return nil
	}
	if err == nil {
		_, err = r.control.Exec(ctx, `SELECT pg_advisory_unlock($1)`, key)
	}
	if err != nil {
		return fmt.Errorf("wait for readers: %w", err)
	}
	return nil
}

// inUse reports whether an error means that others hold the lock.
func inUse(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "55P03" || pg.Code == "40P01")
}

// giveWay waits before the next attempt to get a lock.
func (r *rebuild) giveWay(ctx context.Context) error {
	r.say("the tables are in use; trying again")
	eventlog.Pause(ctx, 500*time.Millisecond)
	return ctx.Err()
}

// swap runs the swap's transaction, and returns the generation that it ended. A crash
// during the transaction changes nothing. A crash after it leaves the old tables, which
// the next rebuild drops.
func (r *rebuild) swap(ctx context.Context) (was string, err error) {
	begun := time.Now()
	defer func() { r.result.Held = time.Since(begun) }()
	err = pgx.BeginFunc(ctx, r.control, func(tx pgx.Tx) error {
		// synchronous_commit is on here. The commit also flushes the replay's commits,
		// which were asynchronous, because they are earlier in the same WAL.
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '`+swapLockTimeout+`'; SET LOCAL synchronous_commit = on`); err != nil {
			return err
		}
		if err := r.sameVersion(ctx, tx); err != nil {
			return err
		}
		live, err := r.hold(ctx, tx)
		if err != nil {
			return err
		}
		was = live.Generation
		if err := r.replayer.To(ctx, live.Seq); err != nil {
			return err
		}
		if at := r.replayer.At(); at != live.Seq {
			return fmt.Errorf("the rebuilt tables are at %d, beyond the live ones at %d", at, live.Seq)
		}
		for _, statement := range r.renames() {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		// A fence reads the checkpoint again after an announcement that does not continue
		// its known position.
		_, err = tx.Exec(ctx, `SELECT pg_notify($1, 'exchanged')`, schema.Channel(r.live))
		return err
	})
	return was, err
}

// sameVersion blocks migrations until the swap is done, and returns an error if one ran
// in the meantime.
func (r *rebuild) sameVersion(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, schema.LockKey("migrate", r.live)); err != nil {
		return err
	}
	var live, fresh int64
	err := tx.QueryRow(ctx, `SELECT (SELECT max(version_id) FROM `+r.live+`.goose_db_version), (SELECT max(version_id) FROM `+r.fresh+`.goose_db_version)`).Scan(&live, &fresh)
	if err == nil && live != fresh {
		err = fmt.Errorf("%w: %d and %d", ErrMigrated, live, fresh)
	}
	return err
}

// hold stops the live projectors and returns their position. Reads stay allowed. When the
// projectors can continue, they find a checkpoint of another generation, so their
// transactions fail.
func (r *rebuild) hold(ctx context.Context, tx pgx.Tx) (live projector.Checkpoint, err error) {
	if _, err := tx.Exec(ctx, `LOCK TABLE `+r.live+`.checkpoint IN EXCLUSIVE MODE`); err != nil {
		return live, err
	}
	live, _, err = r.position(ctx, tx)
	return live, err
}

func (r *rebuild) renames() []string {
	return []string{
		`ALTER SCHEMA ` + r.live + ` RENAME TO ` + r.old,
		`COMMENT ON SCHEMA ` + r.old + ` IS '` + comment + `'`,
		`ALTER SCHEMA ` + r.fresh + ` RENAME TO ` + r.live,
		`COMMENT ON SCHEMA ` + r.live + ` IS NULL`,
	}
}
