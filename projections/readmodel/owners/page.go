package owners

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/schema"
)

// After returns the owners that follow owner in the order of their keys, at most limit.
// If owner is empty, it starts with the first owner.
func After(ctx context.Context, q schema.Querier, owner events.Owner, limit int) ([]events.Owner, error) {
	rows, err := q.Query(ctx, `SELECT owner FROM owners WHERE owner > $1 ORDER BY owner LIMIT $2`, string(owner), limit)
	if err != nil {
		return nil, fmt.Errorf("list owners: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[events.Owner])
	if err != nil {
		return nil, fmt.Errorf("list owners: %w", err)
	}
	return list, nil
}
