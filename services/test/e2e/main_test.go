// Package e2e_test tests the whole product through its two HTTP APIs, on a real log and a
// real database.
package e2e_test

import (
	"testing"

	"github.com/memory-ledger/ledger/services/test/stacktest"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// noErr ends the test on an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
