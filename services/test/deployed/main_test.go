// Package deployed_test tests the parts of a deployment (compose.yaml and infra/): the
// gateway's configuration in a real nginx, the queries of alerts and dashboard against
// the metrics of running services, and the services as processes with a role's
// credentials on a log of three nodes.
package deployed_test

import (
	"testing"

	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

var must = testkit.Must

func TestMain(m *testing.M) { stacktest.Main(m) }
