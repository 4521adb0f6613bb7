package anchorer

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events/partition"
	"github.com/memory-ledger/ledger/projections/schema"
)

const (
	// standbyEvery is how often a standby asks for the locks.
	standbyEvery = 500 * time.Millisecond
	// lockCheckEvery is how often the locks' connection is tried.
	lockCheckEvery = time.Second
	lockTimeout    = 5 * time.Second
	// turnTimeout bounds one try for the locks, which may drop the tables of
	// another build, and the look at the checkpoints after it: a database that
	// went silent would else hold the anchorer until the kernel gives up.
	turnTimeout = time.Minute
	// lockKey is shared by all who work on the tables, and taken alone to make
	// them anew. Builds that knew no partitions take it alone to work.
	lockKey = 0x4d4c616e63686f72 // "MLanchor"
	// lockClass and the number of a partition are the lock of that partition.
	lockClass = 0x4d4c616e // "MLan"
)

// takeTurn waits until no other anchorer works for any of these partitions on
// this database. The locks live as long as their connection.
func (a *Anchorer) takeTurn(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, a.cfg.Pool.Config().ConnConfig.Copy())
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	for {
		mine, err := tryTurn(ctx, conn, a.cfg.Partitions)
		if err != nil {
			schema.Disconnect(conn)
			return nil, err
		}
		if mine {
			return conn, nil
		}
		a.status.set(func(s *status) {
			s.session, s.standby, s.toldChain, s.toldFunds, s.toldCache = nil, true, nil, nil, false
		})
		if !pause(ctx, standbyEvery) {
			schema.Disconnect(conn)
			return nil, ctx.Err()
		}
	}
}

// tryTurn takes all locks or none. Where the tables are of another build it
// first makes them anew, which needs that nobody works on them at all.
func tryTurn(ctx context.Context, conn *pgx.Conn, p partition.Run) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	current, err := isCurrent(ctx, conn)
	if err == nil && !current {
		var alone bool
		if alone, err = tryLock(ctx, conn, `SELECT pg_try_advisory_lock($1)`, lockKey); err == nil && alone {
			err = makeTables(ctx, conn)
		}
		if err == nil && alone {
			_, err = conn.Exec(ctx, `SELECT pg_advisory_unlock($1)`, lockKey)
		}
	}
	if err != nil {
		return false, err
	}
	mine, err := tryLock(ctx, conn, `SELECT pg_try_advisory_lock_shared($1)`, lockKey)
	if err == nil && mine {
		// One after the other: of two that want the same, the one who gets the
		// first gets all.
		mine, err = tryLock(ctx, conn, `WITH RECURSIVE take(partition, mine) AS (
				SELECT $2::integer, pg_try_advisory_lock($1::integer, $2::integer)
			UNION ALL
				SELECT partition + 1, pg_try_advisory_lock($1::integer, partition + 1) FROM take WHERE mine AND partition + 1 < $3::integer
			) SELECT bool_and(mine) FROM take`, lockClass, p.First, p.End)
	}
	if err == nil && mine {
		// From here on nobody makes them anew.
		mine, err = isCurrent(ctx, conn)
	}
	if err == nil && !mine {
		_, err = conn.Exec(ctx, `SELECT pg_advisory_unlock_all()`)
	}
	return mine && err == nil, err
}

func tryLock(ctx context.Context, conn *pgx.Conn, sql string, args ...any) (mine bool, err error) {
	if err := conn.QueryRow(ctx, sql, args...).Scan(&mine); err != nil {
		return false, fmt.Errorf("take the anchorer's lock: %w", err)
	}
	return mine, nil
}

// holdTurn ends the session when the locks' connection is gone, and the locks
// with it.
func (a *Anchorer) holdTurn(ctx context.Context, lock *pgx.Conn) error {
	for pause(ctx, lockCheckEvery) {
		ping, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockTimeout)
		err := lock.Ping(ping)
		cancel()
		if err != nil {
			return fmt.Errorf("the anchorer's lock is lost: %w", err)
		}
	}
	return nil
}
