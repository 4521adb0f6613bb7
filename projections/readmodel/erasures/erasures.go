// Package erasures is the read model of owners who had their texts made unreadable.
package erasures

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Erased is what was erased of an owner's log.
type Erased struct {
	Times  int    // how often; each time the data key before was destroyed
	Leaves uint64 // the leaves below this index have no text any more
}

const findSQL = `SELECT count(*), coalesce(max(leaves), 0) FROM erasures WHERE owner = $1`

// Find returns what was erased of an owner's log.
func Find(ctx context.Context, q schema.Querier, owner events.Owner) (e Erased, err error) {
	if err := q.QueryRow(ctx, findSQL, string(owner)).Scan(&e.Times, &e.Leaves); err != nil {
		return Erased{}, fmt.Errorf("erasures: %w", err)
	}
	return e, nil
}

// QueueFind adds the same question to a batch.
func QueueFind(batch *pgx.Batch, owner events.Owner, e *Erased) {
	batch.Queue(findSQL, string(owner)).QueryRow(func(row pgx.Row) error { return row.Scan(&e.Times, &e.Leaves) })
}
