package owners

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/projections/schema"
)

// maxSeen is how many owners are remembered: 16 MB.
const maxSeen = 100_000

// seen is what the projector knows of the owners of its last slices without
// asking the database. The database has these facts only from the projector.
type seen struct {
	owners *simplelru.LRU[string, *standing]
}

// standing is how an owner stood before a slice.
type standing struct {
	row    bool // there is one,
	named  bool // and it names the newest message
	known  bool // the leaves are:
	leaves uint64
}

func newSeen(limit int) *seen {
	owners, err := simplelru.NewLRU[string, *standing](limit, nil)
	if err != nil {
		panic(err) // only for a limit that is not positive
	}
	return &seen{owners}
}

// before returns how the owners of the changes stood before them, in their order.
// It asks the database about those who were not seen lately, all at once. What it
// returns is remembered, and follows the changes.
func (s *seen) before(ctx context.Context, q schema.Querier, changes []*change) ([]*standing, error) {
	var (
		before  = make([]*standing, len(changes))
		unknown []int
	)
	for i, c := range changes {
		st, ok := s.owners.Get(c.owner)
		if before[i] = st; !ok || c.leaves > 0 && !st.known {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) == 0 {
		return before, nil
	}
	if err := ask(ctx, q, changes, unknown, before); err != nil {
		return nil, err
	}
	for _, i := range unknown {
		// A key of its own: the change's is a part of the message.
		s.owners.Add(strings.Clone(changes[i].owner), before[i])
	}
	return before, nil
}

// ask reads how some of the owners stand: whether they have a row, whether it
// names the newest message, and whether the leaf is there that comes before their
// first. Of one whose is not, the leaves stay unknown.
func ask(ctx context.Context, q schema.Querier, changes []*change, which []int, before []*standing) error {
	owner, previous := make([]string, len(which)), make([]*int64, len(which))
	for n, i := range which {
		c := changes[i]
		if owner[n] = c.owner; c.leaves > 0 && c.leafFrom > 0 {
			last := int64(c.leafFrom - 1)
			previous[n] = &last
		}
	}
	rows, err := q.Query(ctx, `
SELECT n - 1, o.owner IS NOT NULL, o.last_seq IS NOT NULL, leaf.there IS NOT NULL
FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS d (owner, previous, n)
LEFT JOIN owners o ON o.owner = d.owner
LEFT JOIN LATERAL (SELECT true AS there FROM memories m WHERE m.owner = d.owner AND m.leaf_index = d.previous LIMIT 1) AS leaf ON true`,
		owner, previous)
	if err != nil {
		return fmt.Errorf("ask about owners: %w", err)
	}
	var (
		n                 int
		row, named, there bool
	)
	_, err = pgx.ForEachRow(rows, []any{&n, &row, &named, &there}, func() error {
		c := changes[which[n]]
		st := &standing{row: row, named: named}
		if st.known = c.leaves > 0 && (there || c.leafFrom == 0); st.known {
			st.leaves = c.leafFrom
		}
		before[which[n]] = st
		return nil
	})
	if err != nil {
		return fmt.Errorf("ask about owners: %w", err)
	}
	return nil
}

// continues reports whether the change's leaves come after those that are there.
func (st *standing) continues(c *change) bool {
	return c.leaves == 0 || st.known && st.leaves == c.leafFrom
}

// says reports whether the row is after the change what it was before.
func (st *standing) says(c *change) bool {
	return st.row && c.userID == nil && c.others == 0 && !c.chain && c.lastSeq == nil && !(c.ledger && st.named)
}

func (st *standing) add(c *change) {
	st.row = true
	if c.ledger {
		st.named = c.lastSeq != nil
	}
	st.leaves += c.leaves
}
