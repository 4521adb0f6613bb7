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

// State of a batch.
type State string

// The states.
const (
	Cut       State = "cut"
	Submitted State = "submitted"
	Confirmed State = "confirmed"
	Failed    State = "failed"
)

// Batch is a root to commit. Fields of states that the batch has not reached are zero.
type Batch struct {
	ID       string
	Owner    events.Owner
	FromSize uint64
	Size     uint64
	Root     events.Hash
	State    State
	CutAt    *events.Timestamp

	// The newest attempt, or the confirmed attempt.
	Signature            string
	Blockhash            string
	LastValidBlockHeight uint64
	Transaction          []byte
	SubmittedAt          *events.Timestamp

	// Values that were read back from the chain.
	Slot        uint64
	Cluster     string
	ProgramID   string
	Account     string
	ConfirmedAt *events.Timestamp

	FailedAt *events.Timestamp // of the newest failed attempt
	Failure  string
	Seq      uint64 // of the newest event of the batch
}

const columns = `id, owner, from_size, size, root, state, cut_at,
	signature, blockhash, last_valid_block_height, transaction, submitted_at,
	slot, cluster, program_id, account, confirmed_at, failed_at, failure, seq`

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

func scan(row pgx.Row) (Batch, error) {
	var (
		b                                                 Batch
		id                                                column.UUID
		signature, blockhash, cluster, programID, account *string
		lastValid, slot                                   *uint64
		failure                                           []byte
		cutAt, submittedAt, confirmedAt, failedAt         *time.Time
	)
	if err := row.Scan(&id, (*string)(&b.Owner), &b.FromSize, &b.Size, column.Hash(&b.Root), (*string)(&b.State), &cutAt,
		&signature, &blockhash, &lastValid, &b.Transaction, &submittedAt,
		&slot, &cluster, &programID, &account, &confirmedAt, &failedAt, &failure, &b.Seq); err != nil {
		return Batch{}, err
	}
	b.ID, b.Failure = column.UUIDText(id), string(failure)
	b.Signature, b.Blockhash = column.Text(signature), column.Text(blockhash)
	b.Cluster, b.ProgramID, b.Account = column.Text(cluster), column.Text(programID), column.Text(account)
	if lastValid != nil {
		b.LastValidBlockHeight = *lastValid
	}
	if slot != nil {
		b.Slot = *slot
	}
	b.CutAt, b.SubmittedAt = column.Time(cutAt), column.Time(submittedAt)
	b.ConfirmedAt, b.FailedAt = column.Time(confirmedAt), column.Time(failedAt)
	return b, nil
}
