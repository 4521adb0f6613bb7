package memories

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Load returns the owner's memories from leaf index from (inclusive) to leaf index to
// (exclusive), in leaf order, without the batches that cover them. It returns fewer if
// the log ends before to.
func Load(ctx context.Context, q schema.Querier, owner events.Owner, from, to uint64) ([]Memory, error) {
	if from >= to || from > math.MaxInt64 {
		return nil, nil
	}
	read := func(row pgx.Row) (m Memory, err error) {
		err = scan(row, &m)
		return m, err
	}
	return column.All(ctx, q, "load memories", read, `SELECT `+columns+` FROM memories m
		WHERE m.owner = $1 AND m.leaf_index >= $2 AND m.leaf_index < $3 ORDER BY m.leaf_index`, string(owner), from, min(to, math.MaxInt64))
}
