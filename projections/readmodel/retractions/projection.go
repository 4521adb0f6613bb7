package retractions

import (
	"context"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/projector"
)

// Projection adds a row for the first retraction of each memory.
type Projection struct{}

var _ projector.Projection = Projection{}

// Name implements projector.Projection.
func (Projection) Name() string { return "retractions" }

// Tables implements projector.Projection.
func (Projection) Tables() []string { return []string{"retractions"} }

// Apply implements projector.Projection.
func (Projection) Apply(_ context.Context, w *projector.Writer, s projector.Slice) error {
	for r, e := range s.Events() {
		data, ok := e.Data.(*events.MemoryRetracted)
		if !ok {
			continue
		}
		id, err := projector.ID(r, e, data.MemoryID)
		if err != nil {
			return err
		}
		w.Exec(`INSERT INTO retractions (owner, leaf_index, memory_id, retracted_at, seq)
			VALUES ($1, $2, $3, $4, $5) ON CONFLICT (owner, leaf_index) DO NOTHING`,
			e.Owner, data.LeafIndex, id, e.Time.Time(), r.Seq)
	}
	return nil
}
