// Package readmodel lists the read models of this build.
package readmodel

import (
	"github.com/memory-ledger/ledger/projections/apikeys"
	"github.com/memory-ledger/ledger/projections/batches"
	"github.com/memory-ledger/ledger/projections/grants"
	"github.com/memory-ledger/ledger/projections/memories"
	"github.com/memory-ledger/ledger/projections/owners"
	"github.com/memory-ledger/ledger/projections/pages"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/sessions"
	"github.com/memory-ledger/ledger/projections/stakes"
	"github.com/memory-ledger/ledger/projections/tree"
)

// All returns every read model of this build.
func All() []projector.Projection {
	return []projector.Projection{
		owners.Projection{}, sessions.Projection{}, apikeys.Projection{}, grants.Projection{},
		memories.Projection{}, pages.Projection{}, batches.Projection{}, stakes.Projection{}, tree.Projection{},
	}
}
