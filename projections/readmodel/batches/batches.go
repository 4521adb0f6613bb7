// Package batches is the read model of commitments on the chain, done or in progress.
// Each batch is a root over the first Size leaves of an owner's log.
//
//	cut ──> submitted ──> confirmed
//	 └────────┴──> failed ──> cut again, as another batch or the same
//
// A leaf is covered by the smallest confirmed batch that reaches it. If there is none,
// the leaf is covered by the smallest cut or submitted batch that reaches it. A
// confirmed batch stays confirmed; later events do not change it.
package batches

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Batch is a root to commit. Fields of states that the batch has not reached are zero.
type Batch struct {
	ID   string
	Size uint64
	Root events.Hash

	Signature string // of the newest attempt, or of the confirmed attempt

	// Values that were read back from the chain.
	Slot        uint64
	Cluster     string
	ProgramID   string
	Account     string
	ConfirmedAt *events.Timestamp
}

const columns = `id, size, root, coalesce(signature, ''), coalesce(slot, 0), coalesce(cluster, ''), coalesce(program_id, ''),
	coalesce(account, ''), confirmed_at`

func ByID(ctx context.Context, q schema.Querier, id string) (Batch, bool, error) {
	return column.ByID(ctx, q, "find batch", scan, `SELECT `+columns+` FROM batches WHERE id = $1`, id)
}

// QueueLatestConfirmed adds a query to b that finds the owner's largest confirmed batch.
func QueueLatestConfirmed(b *pgx.Batch, owner events.Owner, latest *Batch, found *bool) {
	b.Queue(`SELECT `+columns+` FROM batches
		WHERE owner = $1 AND state = 'confirmed' ORDER BY size DESC, id DESC LIMIT 1`, string(owner)).
		QueryRow(func(row pgx.Row) (err error) {
			*latest, *found, err = column.One(row, "find batch", scan)
			return err
		})
}

func scan(row pgx.Row) (b Batch, err error) {
	var (
		id          column.UUID
		confirmedAt *time.Time
	)
	err = row.Scan(&id, &b.Size, column.Hash(&b.Root), &b.Signature, &b.Slot, &b.Cluster, &b.ProgramID, &b.Account, &confirmedAt)
	b.ID, b.ConfirmedAt = column.UUIDText(id), column.Time(confirmedAt)
	return b, err
}

// Projection folds the states of batches. A confirmed batch does not change.
var Projection = projector.Fold("batches", []string{"batches"}, func(w *projector.Writer, r *projector.Record, e *events.Event) error {
	put := func(id string, size uint64, root events.Hash, state string, onchain ...any) error {
		args := append([]any{e.Owner, size, root[:], state}, onchain...)
		return w.ExecByID(r, e, id, `INSERT INTO batches AS b (id, owner, size, root, state, signature, slot, cluster, program_id, account, confirmed_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
			ON CONFLICT (id) DO UPDATE SET size = excluded.size, root = excluded.root, state = excluded.state,
				signature = coalesce(excluded.signature, b.signature), slot = excluded.slot, cluster = excluded.cluster,
				program_id = excluded.program_id, account = excluded.account, confirmed_at = excluded.confirmed_at
			WHERE b.state <> 'confirmed'`, args...)
	}
	switch data := e.Data.(type) {
	case *events.BatchCut:
		return put(data.BatchID, data.Size, data.Root, "cut", nil, nil, nil, nil, nil, nil)
	case *events.BatchSubmitted:
		return put(data.BatchID, data.Size, data.Root, "submitted", data.Signature, nil, nil, nil, nil, nil)
	case *events.BatchConfirmed:
		return put(data.BatchID, data.Size, data.Root, "confirmed", data.Signature, data.Slot, data.Cluster, data.ProgramID, data.Account, e.Time.Time())
	case *events.BatchFailed:
		return w.ExecByID(r, e, data.BatchID, `UPDATE batches SET state = 'failed' WHERE id = $1 AND state <> 'confirmed'`)
	}
	return nil
})
