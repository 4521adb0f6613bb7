package erasures

import (
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/projector"
)

// Projection adds a row for each erasure.
var Projection = projector.Fold("erasures", []string{"erasures"}, func(w *projector.Writer, r *projector.Record, e *events.Event) error {
	if data, ok := e.Data.(*events.OwnerErased); ok {
		w.Exec(`INSERT INTO erasures (owner, leaves, erased_at, seq) VALUES ($1, $2, $3, $4)`,
			e.Owner, data.Leaves, e.Time.Time(), r.Seq)
	}
	return nil
})
