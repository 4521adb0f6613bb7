// Package erasures is the read model of erasures, which make all of an owner's earlier
// texts unreadable.
package erasures

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Erased is the erased part of an owner's log.
type Erased struct {
	Times  int    // number of erasures; each destroyed the data key before it
	Leaves uint64 // leaves below this index no longer have a text
}

const findSQL = `SELECT count(*), coalesce(max(leaves), 0) FROM erasures WHERE owner = $1`

func Find(ctx context.Context, q schema.Querier, owner events.Owner) (e Erased, err error) {
	if err := q.QueryRow(ctx, findSQL, string(owner)).Scan(&e.Times, &e.Leaves); err != nil {
		return Erased{}, fmt.Errorf("erasures: %w", err)
	}
	return e, nil
}

func QueueFind(batch *pgx.Batch, owner events.Owner, e *Erased) {
	batch.Queue(findSQL, string(owner)).QueryRow(func(row pgx.Row) error { return row.Scan(&e.Times, &e.Leaves) })
}

// Projection adds a row for each erasure.
var Projection = projector.Fold("erasures", []string{"erasures"}, func(w *projector.Writer, r *projector.Record, e *events.Event) error {
	if data, ok := e.Data.(*events.OwnerErased); ok {
		w.Exec(`INSERT INTO erasures (owner, leaves, erased_at, seq) VALUES ($1, $2, $3, $4)`,
			e.Owner, data.Leaves, e.Time.Time(), r.Seq)
	}
	return nil
})
