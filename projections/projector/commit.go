package projector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// advance moves rows of the checkpoint. Its statement is the first of the transaction. It
// locks the rows that a second projector would need, and fails the transaction if they
// are not where this projector left them. It also announces the position; PostgreSQL
// delivers the announcement at the commit.
type advance struct {
	generation string
	from, to   Vector // from has the same marks as the rows
}

// statement moves a single row in place. Several rows exist only until they have caught
// up with each other; statement replaces them.
func (a advance) statement() (sql string, args []any) {
	if len(a.from) == 1 && len(a.to) == 1 {
		was, is := a.from[0], a.to[0]
		return advanceSQL, []any{a.generation, was.First, was.End - 1, was.Seq, is.Seq, storedAt(is)}
	}
	args = []any{a.generation}
	for _, v := range []Vector{a.from, a.to} {
		first, last, seq := make([]int, len(v)), make([]int, len(v)), make([]uint64, len(v))
		for i, m := range v {
			first[i], last[i], seq[i] = m.First, m.End-1, m.Seq
		}
		args = append(args, first, last, seq)
	}
	stored := make([]*time.Time, len(a.to))
	for i, m := range a.to {
		stored[i] = storedAt(m)
	}
	return recutSQL, append(args, stored)
}

func storedAt(m Mark) *time.Time {
	if m.Stored.IsZero() {
		return nil
	}
	return &m.Stored
}

const (
	advanceSQL = `SELECT advance_checkpoint($1, $2, $3, $4, $5, $6)`
	recutSQL   = `SELECT recut_checkpoint($1, $2, $3, $4, $5, $6, $7, $8)`
	codeFenced = "ML001" // raised by both
	beginSQL   = `BEGIN`
	commitSQL  = `COMMIT`
)

// commit writes the steps in one transaction, and moves the checkpoint if a is set.
// Without rows to copy, everything from BEGIN to COMMIT takes one round trip.
//
// After an error the transaction may be open. If the answer to COMMIT was lost, it may
// even be committed. So the caller drops the connection and reads the checkpoint again.
func commit(ctx context.Context, conn *pgx.Conn, steps []Step, a *advance) error {
	batch := new(pgx.Batch)
	batch.Queue(beginSQL)
	if a != nil {
		sql, args := a.statement()
		batch.Queue(sql, args...)
	}
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

// explain adds PostgreSQL's detail or hint to the error: for example, which row failed.
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
