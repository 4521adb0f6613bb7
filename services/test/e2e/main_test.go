// Package e2e_test tests the whole product through its two HTTP APIs, on a real log and a
// real database.
package e2e_test

import (
	"testing"

	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

var noErr, slow, errorOf = testkit.Must, testkit.Slow, testkit.ErrorOf

func TestMain(m *testing.M) { stacktest.Main(m) }
