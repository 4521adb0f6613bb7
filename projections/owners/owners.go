// Package owners is the read model of who has a log and how far it goes.
package owners

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/position"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Owner is what is known of a wallet.
type Owner struct {
	Owner events.Owner
	// UserID is empty for a wallet that never signed in and is known only
	// from the chain.
	UserID       string
	RegisteredAt events.Timestamp

	Version   uint64 // newest owner version of the ledger family, 0 if none
	LastSeq   uint64 // sequence of that message
	LeafCount uint64

	ChainVersion uint64 // the same of the chain family
	ChainLastSeq uint64
}

// Find returns what is known of an owner.
func Find(ctx context.Context, q schema.Querier, owner events.Owner) (Owner, bool, error) {
	var (
		o          = Owner{Owner: owner}
		id         *column.UUID
		registered *time.Time
	)
	err := q.QueryRow(ctx, `SELECT user_id, registered_at, version, last_seq, leaf_count, chain_version, chain_last_seq
		FROM owners WHERE owner = $1`, string(owner)).
		Scan(&id, &registered, &o.Version, &o.LastSeq, &o.LeafCount, &o.ChainVersion, &o.ChainLastSeq)
	if errors.Is(err, pgx.ErrNoRows) {
		return Owner{}, false, nil
	}
	if err != nil {
		return Owner{}, false, fmt.Errorf("find owner: %w", err)
	}
	if id != nil {
		o.UserID = column.UUIDText(*id)
	}
	if registered != nil {
		o.RegisteredAt = events.At(*registered)
	}
	return o, true, nil
}

// Position reads the checkpoint: the sequence up to which every read model
// holds the log, of all owners. Some may hold more of some owners. Read in one transaction with other queries it says exactly
// what they reflect.
func Position(ctx context.Context, q schema.Querier) (uint64, error) {
	c, err := position.Read(ctx, q)
	return c.Lowest(), err
}
