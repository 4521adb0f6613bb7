// Package imports is the read model of imports of whole logs.
package imports

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Import names the export that is imported, by its root and its number of leaves.
type Import struct {
	Root events.Hash
	Size uint64
}

// Projection adds a row for each import.
var Projection = projector.Fold("imports", []string{"imports"}, func(w *projector.Writer, r *projector.Record, e *events.Event) error {
	switch data := e.Data.(type) {
	case *events.ImportStarted:
		w.Exec(`INSERT INTO imports (owner, root, size, seq) VALUES ($1, $2, $3, $4)`, e.Owner, data.Root[:], data.Size, r.Seq)
	case *events.ImportFinished:
		w.Exec(`UPDATE imports SET ended_at = $2 WHERE owner = $1 AND ended_at IS NULL`, e.Owner, e.Time.Time())
	}
	return nil
})

// Running returns the owner's import that has not ended.
func Running(ctx context.Context, q schema.Querier, owner events.Owner) (Import, bool, error) {
	return column.One(q.QueryRow(ctx, `SELECT root, size FROM imports WHERE owner = $1 AND ended_at IS NULL`, string(owner)),
		"find import", func(row pgx.Row) (i Import, err error) {
			err = row.Scan(column.Hash(&i.Root), &i.Size)
			return i, err
		})
}
