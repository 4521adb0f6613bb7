package owners

import (
	"context"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projection"
)

// Projection folds every message into its owner's row.
type Projection struct{}

var _ projection.Projection = Projection{}

// Name implements projection.Projection.
func (Projection) Name() string { return "owners" }

// Tables implements projection.Projection.
func (Projection) Tables() []string { return []string{"owners"} }

// change is what a slice says of one owner.
type change struct {
	owner            string
	userID           []byte
	registered       *time.Time
	version, lastSeq int64
	chainVersion     int64
	chainLastSeq     int64
	leafFrom         *int64 // index of the first leaf in the slice
	leaves           int64
}

// Apply implements projection.Projection.
func (Projection) Apply(_ context.Context, w *projection.Writer, s projection.Slice) error {
	changes, err := fold(s)
	if err != nil || len(changes) == 0 {
		return err
	}
	var (
		owner                                        = make([]string, len(changes))
		userID                                       = make([][]byte, len(changes))
		registered                                   = make([]*time.Time, len(changes))
		version, lastSeq, chainVersion, chainLastSeq = make([]int64, len(changes)), make([]int64, len(changes)), make([]int64, len(changes)), make([]int64, len(changes))
		leafFrom                                     = make([]*int64, len(changes))
		leaves                                       = make([]int64, len(changes))
	)
	for i, c := range changes {
		owner[i], userID[i], registered[i] = c.owner, c.userID, c.registered
		version[i], lastSeq[i] = c.version, c.lastSeq
		chainVersion[i], chainLastSeq[i] = c.chainVersion, c.chainLastSeq
		leafFrom[i], leaves[i] = c.leafFrom, c.leaves
	}
	w.Exec(upsert, owner, userID, registered, version, lastSeq, chainVersion, chainLastSeq, leafFrom, leaves)
	return nil
}

// upsert adds a slice's changes: to the rows that are there, and as rows where
// there are none. (ON CONFLICT would do the same at a quarter more of the
// cost.) Leaves that do not continue where the row ends become -1, which the
// table's constraint turns into an error: a gap in the leaves must stop the
// projector, and costs no look beforehand this way.
const upsert = `
WITH d AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::timestamptz[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])
    AS d (owner, user_id, registered_at, version, last_seq, chain_version, chain_last_seq, leaf_from, leaves)
), known AS (
    UPDATE owners o SET
        user_id        = coalesce(o.user_id, d.user_id),
        registered_at  = coalesce(o.registered_at, d.registered_at),
        version        = greatest(o.version, d.version),
        last_seq       = greatest(o.last_seq, d.last_seq),
        leaf_count     = CASE WHEN coalesce(d.leaf_from, o.leaf_count) = o.leaf_count THEN o.leaf_count + d.leaves ELSE -1 END,
        chain_version  = greatest(o.chain_version, d.chain_version),
        chain_last_seq = greatest(o.chain_last_seq, d.chain_last_seq)
    FROM d WHERE o.owner = d.owner
    RETURNING o.owner
)
INSERT INTO owners (owner, user_id, registered_at, version, last_seq, leaf_count, chain_version, chain_last_seq)
SELECT owner, user_id, registered_at, version, last_seq,
       CASE WHEN coalesce(leaf_from, 0) = 0 THEN leaves ELSE -1 END, chain_version, chain_last_seq
FROM d WHERE NOT EXISTS (SELECT FROM known WHERE known.owner = d.owner)`

func fold(s projection.Slice) ([]*change, error) {
	var (
		changes []*change
		byOwner = make(map[events.Owner]*change)
	)
	for i := range s.Records {
		r := &s.Records[i]
		c := byOwner[r.Owner]
		if c == nil {
			c = &change{owner: string(r.Owner)}
			byOwner[r.Owner] = c
			changes = append(changes, c)
		}
		version := int64(r.Events[0].OwnerVersion)
		if r.Family == events.FamilyChain {
			c.chainVersion, c.chainLastSeq = max(c.chainVersion, version), int64(r.Seq)
		} else {
			c.version, c.lastSeq = max(c.version, version), int64(r.Seq)
		}
		for j := range r.Events {
			if err := c.add(r, &r.Events[j]); err != nil {
				return nil, err
			}
		}
	}
	return changes, nil
}

func (c *change) add(r *projection.Record, e *events.Event) error {
	switch data := e.Data.(type) {
	case *events.OwnerRegistered:
		id, ok := column.ParseUUID(data.UserID)
		if !ok {
			return projection.Unexpected(r, e, "the user id is not a UUID")
		}
		if c.userID == nil {
			at := e.Time.Time()
			c.userID, c.registered = id[:], &at
		}
	case *events.MemoryWritten:
		index := int64(data.LeafIndex)
		if c.leafFrom == nil {
			c.leafFrom = &index
		}
		if index != *c.leafFrom+c.leaves {
			return projection.Unexpected(r, e, "the leaf index does not continue the owner's log")
		}
		c.leaves++
	}
	return nil
}
