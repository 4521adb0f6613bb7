package owners

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Projection keeps a row for each owner, and checks new leaves against the existing
// leaves: a leaf that does not continue its owner's log stops the projector.
type Projection struct{}

func (Projection) Name() string { return "owners" }

func (Projection) Tables() []string { return []string{"owners"} }

// change is the effect of a slice on one owner.
type change struct {
	owner  string
	userID []byte

	ledger  bool   // the slice has messages of the ledger family
	others  int64  // number of ledger messages, minus the number of leaves
	lastSeq *int64 // sequence of the newest ledger message; nil if it holds a leaf

	chain                      bool // the slice has messages of the chain family
	chainVersion, chainLastSeq int64

	leafFrom, leaves uint64 // index of the first leaf in the slice, and their number
	leafRecord       *projector.Record
	leafEvent        *events.Event
}

// Apply implements projector.Projection. In most slices, known owners write memories and
// nothing else. For such a slice Apply writes nothing.
func (Projection) Apply(ctx context.Context, w *projector.Writer, s projector.Slice) error {
	changes, err := fold(s)
	if err != nil || len(changes) == 0 {
		return err
	}
	before, err := ask(ctx, w.Querier(), changes)
	if err != nil {
		return err
	}
	var written []*change
	for i, c := range changes {
		if c.leaves > 0 && c.leafFrom > 0 && !before[i].previous {
			return projector.Unexpected(c.leafRecord, c.leafEvent, discontinued)
		}
		if !before[i].says(c) {
			written = append(written, c)
		}
	}
	if len(written) > 0 {
		write(w, written)
	}
	return nil
}

const discontinued = "the leaf index does not continue the owner's log"

func write(w *projector.Writer, changes []*change) {
	rows := make([][]any, len(changes))
	for i, c := range changes {
		rows[i] = []any{c.owner, c.userID, c.ledger, c.others, c.lastSeq, c.chain, c.chainVersion, c.chainLastSeq}
	}
	w.ExecRows(upsert, rows)
}

// upsert applies a slice's changes: it updates existing rows and inserts missing rows.
// (ON CONFLICT would do the same, but costs a quarter more.)
const upsert = `
WITH d AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::boolean[], $4::bigint[], $5::bigint[], $6::boolean[], $7::bigint[], $8::bigint[])
    AS d (owner, user_id, ledger, others, last_seq, chain, chain_version, chain_last_seq)
), known AS (
    UPDATE owners o SET
        user_id        = coalesce(o.user_id, d.user_id),
        others         = o.others + d.others,
        last_seq       = CASE WHEN d.ledger THEN d.last_seq ELSE o.last_seq END,
        chain_version  = greatest(o.chain_version, d.chain_version),
        chain_last_seq = CASE WHEN d.chain THEN d.chain_last_seq ELSE o.chain_last_seq END
    FROM d WHERE o.owner = d.owner
    RETURNING o.owner
)
INSERT INTO owners (owner, user_id, others, last_seq, chain_version, chain_last_seq)
SELECT owner, user_id, others, last_seq, chain_version, chain_last_seq
FROM d WHERE NOT EXISTS (SELECT FROM known WHERE known.owner = d.owner)`

func fold(s projector.Slice) ([]*change, error) {
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
		leaves := c.leaves
		for j := range r.Events {
			if err := c.add(r, &r.Events[j]); err != nil {
				return nil, err
			}
		}
		if r.Family == events.FamilyChain {
			c.chain, c.chainVersion, c.chainLastSeq = true, max(c.chainVersion, int64(r.Events[0].OwnerVersion)), int64(r.Seq)
			continue
		}
		c.ledger, c.lastSeq = true, nil
		c.others += 1 - int64(c.leaves-leaves)
		if c.leaves == leaves {
			c.lastSeq = new(int64(r.Seq)) // escapes to the heap; most messages hold a leaf and do not need it
		}
	}
	return changes, nil
}

func (c *change) add(r *projector.Record, e *events.Event) error {
	switch data := e.Data.(type) {
	case *events.OwnerRegistered:
		id, ok := column.ParseUUID(data.UserID)
		if !ok {
			return projector.Unexpected(r, e, "the user id is not a UUID")
		}
		if c.userID == nil {
			c.userID = id[:]
		}
	case *events.MemoryWritten:
		if c.leaves == 0 {
			c.leafFrom, c.leafRecord, c.leafEvent = data.LeafIndex, r, e
		}
		if data.LeafIndex != c.leafFrom+c.leaves || data.LeafIndex >= math.MaxInt64 {
			return projector.Unexpected(r, e, discontinued)
		}
		c.leaves++
	}
	return nil
}

// standing is the state of an owner before a slice.
type standing struct {
	row      bool // the owner has a row
	named    bool // the row names the newest message
	previous bool // the leaf before the slice's first leaf exists
}

// ask reads the states of the changes' owners, in the same order. Each LIMIT makes PostgreSQL
// look up one row after another: it would read a table of a thousand owners as a whole, for
// each slice.
func ask(ctx context.Context, q schema.Querier, changes []*change) ([]standing, error) {
	owner, previous := make([]string, len(changes)), make([]*int64, len(changes))
	for i, c := range changes {
		if owner[i] = c.owner; c.leaves > 0 && c.leafFrom > 0 {
			previous[i] = new(int64(c.leafFrom - 1))
		}
	}
	return column.All(ctx, q, "ask about owners", func(row pgx.Row) (st standing, err error) {
		err = row.Scan(&st.row, &st.named, &st.previous)
		return st, err
	}, `
SELECT o.owner IS NOT NULL, o.last_seq IS NOT NULL, leaf.there IS NOT NULL
FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS d (owner, previous, n)
LEFT JOIN LATERAL (SELECT owner, last_seq FROM owners WHERE owner = d.owner LIMIT 1) AS o ON true
LEFT JOIN LATERAL (SELECT true AS there FROM memories m WHERE m.owner = d.owner AND m.leaf_index = d.previous LIMIT 1) AS leaf ON true
ORDER BY n`, owner, previous)
}

// says reports whether the row says already what the change leaves.
func (st standing) says(c *change) bool {
	return st.row && c.userID == nil && c.others == 0 && !c.chain && c.lastSeq == nil && !(c.ledger && st.named)
}
