package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/memory-ledger/ledger/projections/projection"
)

// advance moves the checkpoint. Its statement is the first of the
// transaction: it takes the row that a second projector would need, and fails
// the whole if the checkpoint is not where this projector left it. It also
// announces the position, which PostgreSQL does at the commit.
type advance struct {
	from, to uint64
	stored   time.Time
}

const (
	advanceSQL = `SELECT advance_checkpoint($1, $2, $3)`
	codeFenced = "ML001" // raised by advance_checkpoint
	beginSQL   = `BEGIN`
	commitSQL  = `COMMIT`
)

// commit writes the steps and the checkpoint in one transaction. Without rows
// to copy everything from BEGIN to COMMIT travels in one round trip.
//
// After an error the transaction may be open, or, where the answer to COMMIT
// was lost, even committed: the caller drops the connection and reads the
// checkpoint again.
func commit(ctx context.Context, conn *pgx.Conn, steps []projection.Step, a advance) error {
	batch := new(pgx.Batch)
	batch.Queue(beginSQL)
	batch.Queue(advanceSQL, a.from, a.to, a.stored)
	for len(steps) > 0 {
		if steps[0].Table == "" {
			batch.Queue(steps[0].SQL, steps[0].Args...)
			steps = steps[1:]
			continue
		}
		if err := send(ctx, conn, batch); err != nil {
			return err
		}
		batch = new(pgx.Batch)
		step := steps[0]
		if _, err := conn.CopyFrom(ctx, pgx.Identifier{step.Table}, step.Columns, step.Rows); err != nil {
			return fmt.Errorf("copy into %s: %w", step.Table, explain(err))
		}
		steps = steps[1:]
	}
	batch.Queue(commitSQL)
	return send(ctx, conn, batch)
}

func send(ctx context.Context, conn *pgx.Conn, batch *pgx.Batch) error {
	if batch.Len() == 0 {
		return nil
	}
	results := conn.SendBatch(ctx, batch)
	for range batch.Len() {
		if _, err := results.Exec(); err != nil {
			_ = results.Close() // repeats the error
			return explain(err)
		}
	}
	return results.Close()
}

// explain adds what PostgreSQL says beside its message: which row it was.
func explain(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	if pg.Code == codeFenced {
		return fmt.Errorf("%w: %s", ErrFenced, pg.Message)
	}
	parts := slices.DeleteFunc([]string{pg.Detail, pg.Hint}, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		return err
	}
	return fmt.Errorf("%w (%s)", err, parts[0])
}
