package memory

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/memory-ledger/ledger/projections/readmodel/bodypages"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/services/search"
)

// A search reads an owner's log in pieces, one for each time slot: firstLeaves first, and
// then as many leaves as have lookBytes of text.
const (
	firstLeaves = 1024
	maxLeaves   = 32768
	lookBytes   = 8 << 20
)

// Search returns a cursor over the memories whose text contains the query, ignoring case.
// An empty query matches every memory.
func (s *Service) Search(ctx context.Context, r Reader, query string) (*Cursor, error) {
	c, err := s.Range(ctx, r, 0, 0)
	if err != nil {
		return nil, err
	}
	if utf8.RuneCountInString(query) > MaxContentBytes {
		c.next = c.end // no text is that long
	}
	if query != "" && c.More() {
		c.query = search.NewQuery(query)
	}
	return c, nil
}

// look searches the next piece. Pieces begin at multiples of the page size.
func (c *Cursor) look(ctx context.Context) error {
	found, err := c.service.engine.Find(ctx, search.Range{
		Owner: c.reader.Owner, Key: c.key, Erased: c.without.erased, From: c.next, To: min(c.end, c.next+c.stretch()),
	}, c.query)
	if err != nil {
		return err
	}
	c.textWidth = max(1, found.Bytes/(found.Reached-c.next))
	c.next, c.found = found.Reached, found.Leaves
	return nil
}

// stretch returns how many leaves to search next, assuming texts as long as in the last
// piece.
func (c *Cursor) stretch() uint64 {
	switch {
	case c.textWidth > 0:
		return min(maxLeaves, max(1, lookBytes/c.textWidth/bodypages.Leaves)*bodypages.Leaves)
	case c.service.Segments.Light(c.reader.Owner, c.end, lookBytes):
		return maxLeaves
	default:
		return firstLeaves
	}
}

// checkMatch returns an error if the row of a found leaf does not contain the query: the
// search read another leaf's text.
func (c *Cursor) checkMatch(m *memories.Memory, content string) error {
	if c.query == nil || c.query.In(content) {
		return nil
	}
	return fmt.Errorf("%w: the text of leaf %d of %s is not the one in its row", bodypages.ErrFormat, m.LeafIndex, c.reader.Owner)
}
