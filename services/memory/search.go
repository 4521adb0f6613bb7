package memory

import (
	"context"
	"strings"
	"unsafe"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/memories"
	"github.com/memory-ledger/ledger/services/keystore"
)

// searchRows is how many memories are looked through at a time.
const searchRows = 4096

// search is what a searching cursor carries along.
type search struct {
	matcher matcher
	opener  *keystore.Opener
}

// Search returns a cursor over the memories whose text contains the query, in
// any case. An empty query matches every memory.
func (s *Service) Search(ctx context.Context, owner events.Owner, query string) (*Cursor, error) {
	c, err := s.Range(ctx, owner, 0, 0)
	if err != nil {
		return nil, err
	}
	if query != "" && c.More() {
		c.search = &search{matcher: newMatcher(query), opener: c.key.Opener()}
	}
	return c, nil
}

// nextMatches is Next for a search: it reads sealed bodies from memory where
// they are kept, opens each into the same buffer, and makes something new only
// of those that match.
func (c *Cursor) nextMatches(ctx context.Context, yield func(*View) error) error {
	to := min(c.end, c.next+searchRows)
	rows, err := c.sealed(ctx, to)
	if err != nil {
		return err
	}
	var found []View
	for i := range rows {
		m := &rows[i]
		plain, err := c.search.opener.Open(m.ID, m.Sealed)
		if err != nil {
			return err
		}
		// The text is looked at before the buffer is used again.
		text := unsafe.String(unsafe.SliceData(plain), len(plain))
		if c.search.matcher.match(text) {
			found = append(found, viewOf(strings.Clone(text), m))
		}
	}
	c.next = to
	if err := c.settle(ctx, found); err != nil {
		return err
	}
	for i := range found {
		if err := yield(&found[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cursor) sealed(ctx context.Context, to uint64) ([]memories.Memory, error) {
	if c.service.Bodies == nil {
		rows, _, err := read(ctx, c.service.Pool, c.owner, c.next, to)
		return rows, err
	}
	return c.service.Bodies.rows(ctx, c.service.Pool, c.owner, c.next, to)
}

// settle says of what was found whether it is anchored by now; rows that are
// kept in memory may be from before. Once anchored they stay so.
func (c *Cursor) settle(ctx context.Context, found []View) error {
	first, last := -1, -1
	for i := range found {
		if !found[i].Anchored {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if first < 0 {
		return nil
	}
	cover, err := memories.CoverOf(ctx, c.service.Pool, c.owner, found[first].LeafIndex, found[last].LeafIndex)
	if err != nil {
		return err
	}
	for i := first; i <= last; i++ {
		if !found[i].Anchored {
			found[i].BatchID, found[i].Anchored = cover.Of(found[i].LeafIndex)
		}
	}
	return nil
}
