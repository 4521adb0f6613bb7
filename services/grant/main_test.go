package grant_test

import (
	"testing"

	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
