package memories_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/projections/schema"
)

// TestPlansOfAnEmptyTableLastWhileItGrows: a connection keeps its plan of a prepared
// statement until the table is analyzed, no matter how much the table grows. No plan must
// read more rows than the query asks for.
func TestPlansOfAnEmptyTableLastWhileItGrows(t *testing.T) {
	t.Parallel()
	const few, many = 10, 2000
	a := fixture.NewActor()
	var messages []fixture.Message
	keys := []events.Hash{fixture.Hash("key 1"), fixture.Hash("key 2"), fixture.Hash("key 3")}
	for n := range many {
		message := a.Write(`{}`)
		if n < len(keys) {
			message.Events[0].Data.(*events.MemoryWritten).IdempotencyKeyHash = &keys[n]
		}
		messages = append(messages, message)
	}
	for name, ask := range map[string]func(context.Context, *pgxpool.Pool) (int, error){
		"At": func(ctx context.Context, pool *pgxpool.Pool) (int, error) {
			found, err := at(ctx, pool, a.Owner, 1, 3, 8)
			return len(found), err
		},
		"At, one": func(ctx context.Context, pool *pgxpool.Pool) (n int, err error) {
			for _, leaf := range []uint64{1, 3, 8} {
				found, err := at(ctx, pool, a.Owner, leaf)
				if err != nil {
					return n, err
				}
				n += len(found)
			}
			return n, nil
		},
		"ByID": func(ctx context.Context, pool *pgxpool.Pool) (n int, err error) {
			for _, i := range []int{1, 3, 8} {
				id := messages[i].Events[0].Data.(*events.MemoryWritten).MemoryID
				if _, found, err := memories.ByID(ctx, pool, a.Owner, id); err != nil || !found {
					return n, err
				}
				n++
			}
			return n, nil
		},
		"Scan": func(ctx context.Context, pool *pgxpool.Pool) (n int, err error) {
			return n, memories.Scan(ctx, pool, a.Owner, 2, 3, func(*memories.Memory) error { n++; return nil })
		},
		"ByIdempotencyKey": func(ctx context.Context, pool *pgxpool.Pool) (n int, err error) {
			for _, key := range keys {
				_, found, err := memories.ByIdempotencyKey(ctx, pool, a.Owner, key)
				if err != nil || !found {
					return n, err
				}
				n++
			}
			return n, nil
		},
		"IdempotencyKeys": func(ctx context.Context, pool *pgxpool.Pool) (int, error) {
			found, err := memories.IdempotencyKeys(ctx, pool, a.Owner, 10)
			return len(found), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := fixture.Database(t)
			pool, err := schema.OpenPool(t.Context(), url, schema.Live, 1)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			three := func() {
				t.Helper()
				if n, err := ask(t.Context(), pool); err != nil || n != 3 {
					t.Fatalf("%d found, want 3: %v", n, err)
				}
			}
			fixture.Apply(t, pool, fixture.Slice(1, messages[:few]...), memories.Projection{})
			for range 10 { // PostgreSQL keeps a plan from the sixth execution on
				three()
			}
			fixture.Apply(t, pool, fixture.Slice(few+1, messages[few:]...), memories.Projection{})
			before := rowsRead(t, pool, "memories")
			three()
			if read := rowsRead(t, pool, "memories") - before; read > 3 {
				t.Errorf("%d rows were read for 3 of %d", read, many)
			}
		})
	}
}

// rowsRead returns how many rows of a table were fetched so far, by scans of the table or
// of an index. The pool must have only one connection, which reports its counters.
func rowsRead(t testing.TB, pool *pgxpool.Pool, table string) (n int) {
	t.Helper()
	// The connection reports its counters at the end of this statement.
	if _, err := pool.Exec(t.Context(), `SELECT pg_stat_force_next_flush()`); err != nil {
		t.Fatal(err)
	}
	if err := pool.QueryRow(t.Context(), `SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables
		WHERE relid = $1::regclass`, table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
