package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/memory-ledger/ledger/projections/memories"
	"github.com/memory-ledger/ledger/projections/pages"
)

// A search goes through an owner's log in pieces, one a turn: of a few pages at
// first, and then of as many as have lookBytes, which takes some milliseconds.
// Each piece begins with a question to the database, unless it is kept, and ends
// with one processor waiting for the other, which was a tenth of the time and more;
// so while nobody waits for a turn, pieces are longer.
const (
	firstLeaves = 1024
	lookBytes   = 8 << 20
	maxLeaves   = 16384
	aloneBytes  = 4 * lookBytes
	aloneLeaves = 4 * maxLeaves
	// foundBytes is about how much a piece finds at the most: it is kept until it is
	// handed over, however slowly somebody reads.
	foundBytes = 2 << 20
	// pieceBytes is how much is handed over at a time, of a list too.
	pieceBytes = 4 << 20
)

// What is worth a second processor: so many pages that are read, or bytes that are
// kept, which take 50 microseconds. To wake one up takes as long.
const (
	sharePages = 2
	shareBytes = 256 << 10
)

// Search returns a cursor over the memories whose text contains the query, in
// any case. An empty query matches every memory.
func (s *Service) Search(ctx context.Context, r Reader, query string) (*Cursor, error) {
	c, err := s.Range(ctx, r, 0, 0)
	if err != nil {
		return nil, err
	}
	if utf8.RuneCountInString(query) > MaxContentBytes {
		c.next = c.end // no text has so many
	}
	if query != "" && c.More() {
		m := newMatcher(query)
		c.search = &m
	}
	return c, nil
}

// nextMatches is Next for a search: it takes pages of sealed bodies from memory
// where they are kept, opens each body into the same buffer, and makes something
// new only of those that match.
//
// Of what it finds it hands over no more at a time than has pieceBytes, with the
// metadata, once it knows how long that is.
func (c *Cursor) nextMatches(ctx context.Context, yield func(*View) error) error {
	if len(c.found) == 0 {
		found, reached, err := c.look(ctx, min(c.end, c.next+c.stretch()))
		if err != nil {
			return err
		}
		c.next, c.found = reached, found
	}
	now := c.found[:min(uint64(len(c.found)), cmp.Or(c.rows, firstLeaves))]
	views, err := c.settle(ctx, now)
	if err != nil {
		return err
	}
	bytes, handed := 0, 0
	for i := range views {
		bytes += len(views[i].Content) + len(views[i].Metadata)
		handed++
		if err := yield(&views[i]); errors.Is(err, ErrEnough) {
			break
		} else if err != nil {
			return err
		}
	}
	c.found = c.found[handed:]
	if handed > 0 {
		c.pace(handed, bytes, maxLeaves)
	}
	return nil
}

// looked is what a piece of a search went through.
type looked struct{ leaves, bytes, found uint64 }

// stretch is how many leaves are looked through next, if they are like those of
// the piece before. Pages begin where pieces do.
func (c *Cursor) stretch() uint64 {
	leaves, bytes := uint64(maxLeaves), uint64(lookBytes)
	if c.service.Turns.Alone() {
		leaves, bytes = aloneLeaves, aloneBytes
	}
	if last := c.looked; last.leaves > 0 {
		leaves = min(leaves, bytes*last.leaves/max(1, last.bytes), foundBytes*last.leaves/max(1, last.found))
	} else if !c.service.Bodies.light(c.reader.Owner, c.end, lookBytes) {
		leaves = firstLeaves
	}
	return max(1, leaves/pages.Leaves) * pages.Leaves
}

// match is a leaf whose text contains the query.
type match struct {
	leaf    uint64
	id      [16]byte
	content string
}

// look opens the leaves up to an index and returns the matches in leaf order, and
// how far it came, which may be less. Pages that come from the database are looked
// through while those after them are on their way, on another processor too where
// one is free.
func (c *Cursor) look(ctx context.Context, to uint64) (found []match, reached uint64, err error) {
	crew, ctx := newCrew(ctx)
	defer crew.stop(nil)
	var (
		count = pagesOf(to) - c.next/pages.Leaves
		work  = piece{first: c.next, arrived: make(chan leafPage, count)} // holds all, so nobody waits for those who look
	)
	shared := count >= sharePages
	kept, whole := c.service.Bodies.whole(c.reader.Owner, c.next, to)
	if whole {
		bytes := 0
		for _, p := range kept {
			bytes += p.bytes()
			work.arrived <- p
		}
		close(work.arrived)
		reached, shared = to, bytes >= shareBytes
	}
	var release func() // of the second processor; nil without
	if shared {
		release = c.service.Turns.TryTake()
	}
	if !whole {
		crew.beside(func() (err error) {
			defer close(work.arrived)
			reached, err = c.load(ctx, to, release != nil, func(p leafPage) { work.arrived <- p })
			return err
		})
	}
	if release != nil {
		crew.beside(func() error {
			defer release()
			return c.lookThrough(ctx, &work, nil)
		})
	}
	// Only this goroutine may pass the turn on; the other one helps for a moment.
	crew.done(c.lookThrough(ctx, &work, c.passTurn))
	if err := crew.wait(); err != nil {
		return nil, 0, err
	}
	found, reached = work.until(reached)
	c.looked = looked{reached - c.next, uint64(work.looked), uint64(work.bytes)}
	return found, reached, nil
}

func (c *Cursor) load(ctx context.Context, to uint64, both bool, yield func(leafPage)) (reached uint64, err error) {
	from := source{c.service.Pool, c.reader.Owner, both}
	if c.service.Bodies == nil {
		all, err := from.load(ctx, c.next, to, pages.Page{}, once(yield))
		return endOf(all), err
	}
	return c.service.Bodies.pages(ctx, from, c.next, to, yield)
}

// settle reads what pages do not hold of the leaves that were found, and
// whether they are anchored by now.
func (c *Cursor) settle(ctx context.Context, found []match) ([]View, error) {
	if len(found) == 0 {
		return nil, nil
	}
	leaves := make([]uint64, len(found))
	for i := range found {
		leaves[i] = found[i].leaf
	}
	rows, err := memories.At(ctx, c.service.Pool, c.reader.Owner, leaves)
	if err != nil {
		return nil, err
	}
	if len(rows) != len(found) {
		return nil, fmt.Errorf("settle what was found: %d of %d leaves are in the read model", len(rows), len(found))
	}
	views := make([]View, len(found))
	for i := range rows {
		// What opened was sealed for this id and this owner, but a page could
		// have it in another's place.
		if id := uuid.UUID(found[i].id).String(); rows[i].ID != id || rows[i].LeafIndex != found[i].leaf {
			return nil, fmt.Errorf("%w: leaf %d of %s is %s there and %s in its row", pages.ErrFormat, found[i].leaf, c.reader.Owner, id, rows[i].ID)
		}
		views[i] = viewOf(found[i].content, &rows[i])
	}
	return views, nil
}
