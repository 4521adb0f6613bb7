package memory

import (
	"testing"

	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/infra/testkit"
)

var must = testkit.Must

func TestMain(m *testing.M) { pgtest.Main(m) }
