package owners

import (
	"context"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/schema"
)

// After returns the owners that follow owner in the order of their keys, at most limit.
// If owner is empty, it starts with the first owner.
func After(ctx context.Context, q schema.Querier, owner events.Owner, limit int) ([]events.Owner, error) {
	return column.All(ctx, q, "list owners", column.Value[events.Owner], `SELECT owner FROM owners WHERE owner > $1 ORDER BY owner LIMIT $2`, string(owner), limit)
}
