package retractions

import (
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/projector"
)

// Projection adds a row for the first retraction of each memory.
var Projection = projector.Fold("retractions", []string{"retractions"}, func(w *projector.Writer, r *projector.Record, e *events.Event) error {
	if data, ok := e.Data.(*events.MemoryRetracted); ok {
		return w.ExecByID(r, e, data.MemoryID, `INSERT INTO retractions (memory_id, owner, leaf_index, retracted_at, seq)
			VALUES ($1, $2, $3, $4, $5) ON CONFLICT (owner, leaf_index) DO NOTHING`,
			e.Owner, data.LeafIndex, e.Time.Time(), r.Seq)
	}
	return nil
})
