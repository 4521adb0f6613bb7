package erasures

import (
	"context"
	"time"

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
	var (
		owner       []string
		leaves, seq []int64
		at          []time.Time
	)
	for r, e := range s.Events() {
		if data, ok := e.Data.(*events.OwnerErased); ok {
			owner, leaves = append(owner, string(e.Owner)), append(leaves, int64(data.Leaves))
			at, seq = append(at, e.Time.Time()), append(seq, int64(r.Seq))
		}
	}
	if len(owner) > 0 {
		w.Exec(`INSERT INTO erasures (owner, leaves, erased_at, seq)
			SELECT * FROM unnest($1::text[], $2::bigint[], $3::timestamptz[], $4::bigint[])`, owner, leaves, at, seq)
	}
	return nil
}
