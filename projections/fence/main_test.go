package fence_test

import (
	"testing"

	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
