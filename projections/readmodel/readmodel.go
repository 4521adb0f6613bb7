// Package readmodel lists the read models of this build.
package readmodel

import (
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel/apikeys"
	"github.com/memory-ledger/ledger/projections/readmodel/batches"
	"github.com/memory-ledger/ledger/projections/readmodel/grants"
	"github.com/memory-ledger/ledger/projections/readmodel/imports"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/projections/readmodel/owners"
	"github.com/memory-ledger/ledger/projections/readmodel/retractions"
	"github.com/memory-ledger/ledger/projections/readmodel/sessions"
	"github.com/memory-ledger/ledger/projections/readmodel/stakes"
	"github.com/memory-ledger/ledger/projections/tree"
)

// All returns every read model of this build.
func All() []projector.Projection {
	return []projector.Projection{
		owners.Projection{}, sessions.Projection, apikeys.Projection, grants.Projection,
		memories.Projection{}, batches.Projection, retractions.Projection, retractions.Erasures, imports.Projection, stakes.Projection{}, tree.Projection{},
	}
}
