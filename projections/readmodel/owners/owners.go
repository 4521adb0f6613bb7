// Package owners is the read model of who has a log and how far it goes.
//
// A row says what the memories do not. How many leaves an owner has, and when the
// newest came, is read from them: they are what comes most often by far, and a
// row that each of them updates cost a write a tenth of its time.
package owners

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Owner is what is known of a wallet.
type Owner struct {
	Owner events.Owner
	// UserID is empty for a wallet that never signed in and is known only
	// from the chain.
	UserID       string
	RegisteredAt events.Timestamp

	Version   uint64 // messages of the ledger family, which is the newest one's owner version
	LastSeq   uint64 // sequence of the newest, 0 if there is none
	LeafCount uint64

	ChainVersion uint64 // the same of the chain family
	ChainLastSeq uint64
}

// findSQL puts the row and the newest leaf together.
const findSQL = `SELECT user_id, registered_at, others + coalesce(leaf_index + 1, 0), greatest(last_seq, leaf_seq, 0),
		coalesce(leaf_index + 1, 0), chain_version, chain_last_seq
	FROM owners LEFT JOIN LATERAL (
		SELECT leaf_index, seq AS leaf_seq FROM memories WHERE owner = $1 ORDER BY leaf_index DESC LIMIT 1) AS newest ON true
	WHERE owner = $1`

// Find returns what is known of an owner.
func Find(ctx context.Context, q schema.Querier, owner events.Owner) (o Owner, found bool, err error) {
	if found, err = o.scan(q.QueryRow(ctx, findSQL, string(owner)), owner); err != nil {
		return Owner{}, false, fmt.Errorf("find owner: %w", err)
	}
	return o, found, nil
}

// QueueFind has a batch find what is known of an owner. Where nothing is, o stays
// as it is.
func QueueFind(b *pgx.Batch, owner events.Owner, o *Owner) {
	b.Queue(findSQL, string(owner)).QueryRow(func(row pgx.Row) error {
		if _, err := o.scan(row, owner); err != nil {
			return fmt.Errorf("find owner: %w", err)
		}
		return nil
	})
}

func (o *Owner) scan(row pgx.Row, owner events.Owner) (found bool, err error) {
	var (
		read       = Owner{Owner: owner}
		id         *column.UUID
		registered *time.Time
	)
	err = row.Scan(&id, &registered, &read.Version, &read.LastSeq, &read.LeafCount, &read.ChainVersion, &read.ChainLastSeq)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if id != nil {
		read.UserID = column.UUIDText(*id)
	}
	if registered != nil {
		read.RegisteredAt = events.At(*registered)
	}
	*o = read
	return true, nil
}

// Position reads the checkpoint: the sequence up to which every read model
// holds the log, of all owners. Some may hold more of some owners. Read in one
// transaction with other queries it says exactly what they reflect.
func Position(ctx context.Context, q schema.Querier) (uint64, error) {
	c, err := projector.ReadCheckpoint(ctx, q)
	return c.Lowest(), err
}
