package pgtest_test

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestEachDatabaseIsFreshAndOurs(t *testing.T) {
	t.Parallel()
	urls := make([]string, 4)
	var all sync.WaitGroup
	for i := range urls {
		urls[i] = pgtest.Database(t)
		all.Go(func() {
			conn, err := pgx.Connect(t.Context(), urls[i])
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close(t.Context()) }()
			// The same table in each: no test sees another's.
			if _, err := conn.Exec(t.Context(), "CREATE SCHEMA s; CREATE TABLE s.x (i int); CREATE TABLE x (i int)"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestDatabaseIsDroppedUnderAnOpenConnection(t *testing.T) {
	t.Parallel()
	var name, keep string
	t.Run("inner", func(t *testing.T) {
		conn, err := pgx.Connect(t.Context(), pgtest.Database(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
			t.Fatal(err)
		}
		// Left open on purpose.
	})
	keep = pgtest.Database(t)
	conn, err := pgx.Connect(t.Context(), keep)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var there bool
	if err := conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&there); err != nil || there {
		t.Errorf("database %s is still there: %v, %v", name, there, err)
	}
}
