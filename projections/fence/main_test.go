package fence_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/infra/testkit"
)

var must = testkit.Must

func TestMain(m *testing.M) { pgtest.Main(m) }

// sql runs a statement.
func sql(t testing.TB, pool *pgxpool.Pool, statement string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), statement, args...)
	must(t, err)
}
