// Package retractions is the read model of memories that their owners retracted.
package retractions

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Leaves returns the indexes of the owner's retracted leaves below size, in ascending
// order.
func Leaves(ctx context.Context, q schema.Querier, owner events.Owner, size uint64) ([]uint64, error) {
	return column.All(ctx, q, "retractions", column.Value[uint64], `SELECT leaf_index FROM retractions WHERE owner = $1 AND leaf_index < $2 ORDER BY leaf_index`,
		string(owner), min(size, math.MaxInt64))
}

// QueueLeaves adds the query of Leaves, for the whole log, to a batch. The leaves come as
// one array, because each row would cost more than its leaf.
func QueueLeaves(batch *pgx.Batch, owner events.Owner, leaves *[]uint64) {
	batch.Queue(`SELECT array_agg(leaf_index ORDER BY leaf_index) FROM retractions WHERE owner = $1`, string(owner)).QueryRow(func(row pgx.Row) error {
		return row.Scan(leaves)
	})
}
