package projector

import (
	"cmp"
	"context"
	_ "embed" // for CheckpointSQL
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/memory-ledger/ledger/projections/schema"
)

const codeFenced = "ML001" // raised by advance_checkpoint

// commit writes the steps and moves the checkpoint in one transaction. Without rows to copy,
// everything from BEGIN to COMMIT takes one round trip. advance_checkpoint locks the row that
// a second projector would need, and fails the transaction if the row is not where this
// projector left it. It also announces the position; PostgreSQL delivers the announcement at
// the commit.
//
// After an error the transaction may be open. If the answer to COMMIT was lost, it may
// even be committed. So the caller drops the connection and reads the checkpoint again.
func commit(ctx context.Context, conn *pgx.Conn, steps []Step, from, to Checkpoint) error {
	var stored *time.Time
	if !to.Stored.IsZero() {
		stored = &to.Stored
	}
	batch := new(pgx.Batch)
	batch.Queue(`BEGIN`)
	batch.Queue(`SELECT advance_checkpoint($1, $2, $3, $4)`, from.Generation, from.Seq, to.Seq, stored)
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
		if _, err := conn.CopyFrom(ctx, pgx.Identifier{steps[0].Table}, steps[0].Columns, steps[0].Rows); err != nil {
			return fmt.Errorf("copy into %s: %w", steps[0].Table, explain(err))
		}
		steps = steps[1:]
	}
	batch.Queue(`COMMIT`)
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

// explain adds PostgreSQL's detail or hint to the error: for example, which row failed.
func explain(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	if pg.Code == codeFenced {
		return fmt.Errorf("%w: %s", ErrFenced, pg.Message)
	}
	if more := cmp.Or(pg.Detail, pg.Hint); more != "" {
		return fmt.Errorf("%w (%s)", err, more)
	}
	return err
}

// CheckpointSQL creates the checkpoint at sequence 0, in the first schema of search_path.
// It is for schemas that the read models' migrations do not create.
//
//go:embed checkpoint.sql
var CheckpointSQL string

// Checkpoint is the row of the table checkpoint: how much of the log its schema's read
// models hold.
type Checkpoint struct {
	// Generation identifies a set of read models. Only positions of the same generation
	// can be compared.
	Generation string
	Seq        uint64    // newest sequence that is projected
	Stored     time.Time // when the log stored the message at Seq; zero if unknown
}

// ReadCheckpoint reads the checkpoint. In one transaction with other queries, it returns
// exactly the position that those queries reflect.
func ReadCheckpoint(ctx context.Context, q schema.Querier) (c Checkpoint, err error) {
	var stored *time.Time
	if err = q.QueryRow(ctx, `SELECT generation::text, seq, stored_at FROM checkpoint`).Scan(&c.Generation, &c.Seq, &stored); err != nil {
		return c, fmt.Errorf("read checkpoint: %w", err)
	}
	if stored != nil {
		c.Stored = *stored
	}
	return c, nil
}
