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

// ByID returns one batch.
func ByID(ctx context.Context, q schema.Querier, id string) (Batch, bool, error) {
	key, ok := column.ParseUUID(id)
	if !ok {
		return Batch{}, false, nil
	}
	return column.One(q.QueryRow(ctx, `SELECT `+columns+` FROM batches WHERE id = $1`, key[:]), "find batch", scan)
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
