package owners

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/projections/schema"
)

// seen remembers the owners of the projector's last slices, so that the projector does
// not have to ask the database. It can't be out of date: only the projector writes these
// facts to the database.
type seen map[string]*standing

// standing is the state of an owner before a slice.
type standing struct {
	row    bool // the owner has a row
	named  bool // the row names the newest message
	known  bool // the number of leaves is known
	leaves uint64
}

// before returns the state of the changes' owners before the changes, in the same order.
// It asks the database, in one query, about owners that were not seen recently. It
// remembers the states that it returns; the caller updates them with the changes.
func (s seen) before(ctx context.Context, q schema.Querier, changes []*change) ([]*standing, error) {
	var (
		before  = make([]*standing, len(changes))
		unknown []int
	)
	for i, c := range changes {
		st, ok := s[c.owner]
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
	if len(s) >= 100_000 { // 16 MB of memory
		clear(s)
	}
	for _, i := range unknown {
		// Clone the key: the change's owner is a part of the message.
		s[strings.Clone(changes[i].owner)] = before[i]
	}
	return before, nil
}

// ask reads the states of some owners: whether they have a row, whether the row names the
// newest message, and whether the leaf before the change's first leaf exists. If that
// leaf does not exist, the number of leaves stays unknown.
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

// continues reports whether the change's leaves directly follow the existing leaves.
func (st *standing) continues(c *change) bool {
	return c.leaves == 0 || st.known && st.leaves == c.leafFrom
}

// says reports whether the change leaves the row as it is.
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
