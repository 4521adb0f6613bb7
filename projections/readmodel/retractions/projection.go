package retractions

import (
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/projector"
)

// Projection adds a row for the first retraction of each memory, and for the first time that
// it was forgotten.
var Projection = projector.Fold("retractions", []string{"retractions"}, func(w *projector.Writer, r *projector.Record, e *events.Event) error {
	insert := func(memoryID string, leaf uint64, forgotten bool) error {
		return w.ExecByID(r, e, memoryID, `INSERT INTO retractions (memory_id, owner, leaf_index, forgotten, retracted_at, seq)
			VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (owner, leaf_index, forgotten) DO NOTHING`,
			e.Owner, leaf, forgotten, e.Time.Time(), r.Seq)
	}
	switch data := e.Data.(type) {
	case *events.MemoryRetracted:
		return insert(data.MemoryID, data.LeafIndex, false)
	case *events.MemoryForgotten:
		return insert(data.MemoryID, data.LeafIndex, true)
	}
	return nil
})
