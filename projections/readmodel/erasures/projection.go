package erasures

import (
	"context"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/projector"
)

// Projection adds a row for each erasure.
type Projection struct{}

var _ projector.Projection = Projection{}

// Name implements projector.Projection.
func (Projection) Name() string { return "erasures" }

// Tables implements projector.Projection.
func (Projection) Tables() []string { return []string{"erasures"} }

// Apply implements projector.Projection.
func (Projection) Apply(_ context.Context, w *projector.Writer, s projector.Slice) error {
	for r, e := range s.Events() {
		if data, ok := e.Data.(*events.OwnerErased); ok {
			w.Exec(`INSERT INTO erasures (owner, leaves, erased_at, seq) VALUES ($1, $2, $3, $4)`,
				e.Owner, data.Leaves, e.Time.Time(), r.Seq)
		}
	}
	return nil
}
