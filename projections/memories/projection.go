package memories

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projection"
)

// Projection adds a row for each leaf.
type Projection struct{}

var _ projection.Projection = Projection{}

// Name implements projection.Projection.
func (Projection) Name() string { return "memories" }

// Tables implements projection.Projection.
func (Projection) Tables() []string { return []string{"memories"} }

// written is the rows of a slice, column by column.
type written struct {
	owner                    []string
	leafIndex, seq           []int64
	id, leafHash, sealed, ik [][]byte
	metadata                 []string
	createdAt                []time.Time
	order                    []int // in which they are copied
}

// Apply implements projection.Projection.
func (Projection) Apply(_ context.Context, w *projection.Writer, s projection.Slice) error {
	var rows written
	for r, e := range s.Events() {
		data, ok := e.Data.(*events.MemoryWritten)
		if !ok {
			continue
		}
		id, ok := column.ParseUUID(data.MemoryID)
		if !ok {
			return projection.Unexpected(r, e, "the memory id is not a UUID")
		}
		rows.owner = append(rows.owner, string(e.Owner))
		rows.leafIndex, rows.seq = append(rows.leafIndex, int64(data.LeafIndex)), append(rows.seq, int64(r.Seq))
		rows.id, rows.leafHash = append(rows.id, id[:]), append(rows.leafHash, data.LeafHash[:])
		rows.sealed, rows.ik = append(rows.sealed, column.Bytes(data.Sealed)), append(rows.ik, column.HashArg(data.IdempotencyKeyHash))
		rows.metadata = append(rows.metadata, string(data.Metadata))
		rows.createdAt = append(rows.createdAt, e.Time.Time())
		rows.order = append(rows.order, len(rows.order))
	}
	switch {
	case len(rows.owner) == 0:
	case len(rows.owner) < copyFrom:
		w.Exec(`INSERT INTO memories (owner, leaf_index, id, leaf_hash, metadata, sealed, created_at, idempotency_key_hash, seq)
			SELECT * FROM unnest($1::text[], $2::bigint[], $3::uuid[], $4::bytea[], $5::text[], $6::bytea[], $7::timestamptz[], $8::bytea[], $9::bigint[])`,
			rows.owner, rows.leafIndex, rows.id, rows.leafHash, rows.metadata, rows.sealed, rows.createdAt, rows.ik, rows.seq)
	default:
		slices.SortStableFunc(rows.order, rows.byOwner)
		w.Copy("memories", []string{"owner", "leaf_index", "id", "leaf_hash", "metadata", "sealed", "created_at", "idempotency_key_hash", "seq"},
			pgx.CopyFromSlice(len(rows.owner), rows.row))
	}
	return nil
}

// copyFrom is the number of rows from which COPY is worth its round trips.
const copyFrom = 100

// byOwner puts an owner's rows side by side. They come in the order of the log
// and are read in that of an owner's leaves: where a slice is long, that is a
// fraction of the pages, both of the index that is filled and of the table.
func (w *written) byOwner(i, j int) int { return strings.Compare(w.owner[i], w.owner[j]) }

func (w *written) row(n int) ([]any, error) {
	i := w.order[n]
	return []any{w.owner[i], w.leafIndex[i], w.id[i], w.leafHash[i], w.metadata[i], w.sealed[i], w.createdAt[i], w.ik[i], w.seq[i]}, nil
}
