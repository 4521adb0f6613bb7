package world

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/projections/projector"
)

// Slice makes a slice of the log out of messages, the first of them at a
// sequence.
func Slice(first uint64, messages ...Message) projector.Slice {
	s := projector.Slice{First: first, Last: first + uint64(len(messages)) - 1}
	for i, m := range messages {
		s.Records = append(s.Records, projector.Record{
			Seq: first + uint64(i), Family: m.Family, Owner: m.Events[0].Owner,
			Stored: m.Events[0].Time.Time().Add(time.Microsecond), Events: m.Events,
		})
	}
	return s
}

// Apply writes what projections make of a slice, without a projector, a log
// or a checkpoint.
func Apply(t testing.TB, pool *pgxpool.Pool, slice projector.Slice, projections ...projector.Projection) {
	t.Helper()
	if err := TryApply(pool, slice, projections...); err != nil {
		t.Fatal(err)
	}
}

// TryApply is Apply for a slice that may be refused.
func TryApply(pool *pgxpool.Pool, slice projector.Slice, projections ...projector.Projection) error {
	ctx := context.Background()
	w := projector.NewWriter(pool)
	for _, p := range projections {
		if err := p.Apply(ctx, w, slice); err != nil {
			return err
		}
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for _, step := range w.Steps() {
			var err error
			if step.Table != "" {
				_, err = tx.CopyFrom(ctx, pgx.Identifier{step.Table}, step.Columns, step.Rows)
			} else {
				_, err = tx.Exec(ctx, step.SQL, step.Args...)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Dump is every row of the projections' tables as text, in no order but a
// stable one.
func Dump(t testing.TB, pool *pgxpool.Pool, projections ...projector.Projection) []string {
	t.Helper()
	var all []string
	for _, p := range projections {
		for _, table := range p.Tables() {
			rows, err := pool.Query(context.Background(), fmt.Sprintf(`SELECT '%s ' || x::text FROM %s x`, table, pgx.Identifier{table}.Sanitize()))
			if err != nil {
				t.Fatal(err)
			}
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, lines...)
		}
	}
	slices.Sort(all)
	return all
}

// RowsRead is how many rows of a table were fetched so far, by what way ever, as
// the pool's one connection knows it.
func RowsRead(t testing.TB, pool *pgxpool.Pool, table string) (n int) {
	t.Helper()
	// The counters are told at the end of the statement that says so.
	if _, err := pool.Exec(t.Context(), `SELECT pg_stat_force_next_flush()`); err != nil {
		t.Fatal(err)
	}
	if err := pool.QueryRow(t.Context(), `SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables
		WHERE relid = $1::regclass`, table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Difference is the first line that two dumps do not share, empty if they are
// equal.
func Difference(a, b []string) string {
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			return "only in the second: " + shorten(b[i])
		case i >= len(b):
			return "only in the first: " + shorten(a[i])
		case a[i] != b[i]:
			return shorten(a[i]) + "\n is not \n" + shorten(b[i])
		}
	}
	return ""
}

func shorten(line string) string {
	if len(line) > 1000 {
		return line[:1000] + strings.Repeat(".", 3)
	}
	return line
}
