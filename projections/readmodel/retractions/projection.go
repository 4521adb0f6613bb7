package retractions

import (
	"context"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projector"
)

// Projection adds a row for each memory that is taken back, for the first time.
type Projection struct{}

var _ projector.Projection = Projection{}

// Name implements projector.Projection.
func (Projection) Name() string { return "retractions" }

// Tables implements projector.Projection.
func (Projection) Tables() []string { return []string{"retractions"} }

// Apply implements projector.Projection.
func (Projection) Apply(_ context.Context, w *projector.Writer, s projector.Slice) error {
	var (
		owner     []string
		leaf, seq []int64
		id        [][]byte
		at        []time.Time
	)
	for r, e := range s.Events() {
		data, ok := e.Data.(*events.MemoryRetracted)
		if !ok {
			continue
		}
		memory, ok := column.ParseUUID(data.MemoryID)
		if !ok {
			return projector.Unexpected(r, e, "the memory id is not a UUID")
		}
		owner, leaf, id = append(owner, string(e.Owner)), append(leaf, int64(data.LeafIndex)), append(id, memory[:])
		at, seq = append(at, e.Time.Time()), append(seq, int64(r.Seq))
	}
	if len(owner) > 0 {
		w.Exec(`INSERT INTO retractions (owner, leaf_index, memory_id, retracted_at, seq)
			SELECT * FROM unnest($1::text[], $2::bigint[], $3::uuid[], $4::timestamptz[], $5::bigint[])
			ON CONFLICT (owner, leaf_index) DO NOTHING`, owner, leaf, id, at, seq)
	}
	return nil
}
