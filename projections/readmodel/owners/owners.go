// Package owners is the read model of the owners that have a log, and how long their logs
// are.
//
// A row holds only facts that the memories table does not hold. The number of an owner's
// leaves and the newest leaf are read from the memories table. Memories are by far the
// most frequent messages, and updating a row for each memory took a tenth of the time of
// a write.
package owners

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Owner describes a wallet that has a log.
type Owner struct {
	Owner events.Owner
	// UserID is empty for a wallet that never signed in and that only the chain has
	// shown.
	UserID string

	Version   uint64 // number of ledger messages, which is the owner version of the newest
	LastSeq   uint64 // sequence of the newest ledger message, 0 if there is none
	LeafCount uint64

	ChainVersion uint64 // as Version, for the chain family
	ChainLastSeq uint64 // as LastSeq, for the chain family
}

// findSQL combines the row and the newest leaf.
const findSQL = `SELECT owner, user_id, others + coalesce(leaf_index + 1, 0), greatest(last_seq, leaf_seq, 0),
		coalesce(leaf_index + 1, 0), chain_version, chain_last_seq
	FROM owners LEFT JOIN LATERAL (
		SELECT leaf_index, seq AS leaf_seq FROM memories WHERE owner = $1 ORDER BY leaf_index DESC LIMIT 1) AS newest ON true
	WHERE owner = $1`

func Find(ctx context.Context, q schema.Querier, owner events.Owner) (Owner, bool, error) {
	return column.One(q.QueryRow(ctx, findSQL, string(owner)), "find owner", scan)
}

// QueueFind adds Find's query to a batch. If the owner is not found, o does not change.
func QueueFind(b *pgx.Batch, owner events.Owner, o *Owner) {
	b.Queue(findSQL, string(owner)).QueryRow(func(row pgx.Row) error {
		read, found, err := column.One(row, "find owner", scan)
		if found {
			*o = read
		}
		return err
	})
}

func scan(row pgx.Row) (o Owner, err error) {
	var id *column.UUID
	err = row.Scan((*string)(&o.Owner), &id, &o.Version, &o.LastSeq, &o.LeafCount, &o.ChainVersion, &o.ChainLastSeq)
	if id != nil {
		o.UserID = column.UUIDText(*id)
	}
	return o, err
}

// After returns the owners that follow owner in the order of their keys, at most limit.
// If owner is empty, it starts with the first owner.
func After(ctx context.Context, q schema.Querier, owner events.Owner, limit int) ([]events.Owner, error) {
	return column.All(ctx, q, "list owners", column.Value[events.Owner], `SELECT owner FROM owners WHERE owner > $1 ORDER BY owner LIMIT $2`, string(owner), limit)
}
