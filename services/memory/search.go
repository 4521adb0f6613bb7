package memory

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"unsafe"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/memories"
)

// searchRows is how many memories are looked through at a time.
const searchRows = 4096

// yieldRows is how many of them are looked through before other goroutines get
// the processor: some 50 microseconds' worth. Left to itself the runtime takes
// it away after ten milliseconds only.
const yieldRows = 128

// shareRows is how many rows are worth a second processor.
const shareRows = 512

// Search returns a cursor over the memories whose text contains the query, in
// any case. An empty query matches every memory.
func (s *Service) Search(ctx context.Context, owner events.Owner, query string) (*Cursor, error) {
	c, err := s.Range(ctx, owner, 0, 0)
	if err != nil {
		return nil, err
	}
	if query != "" && c.More() {
		m := newMatcher(query)
		c.search = &m
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
	found, err := c.matching(ctx, rows)
	if err != nil {
		return err
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

// matching looks through rows, half of them on another processor where one is
// free.
func (c *Cursor) matching(ctx context.Context, rows []memories.Memory) ([]View, error) {
	if len(rows) < shareRows {
		return c.matchingOf(ctx, rows)
	}
	release := c.service.Turns.TryTake()
	if release == nil {
		return c.matchingOf(ctx, rows)
	}
	var (
		half   = len(rows) / 2
		second []View
		other  error
		done   = make(chan struct{})
	)
	go func() {
		defer close(done)
		defer release()
		defer func() {
			if p := recover(); p != nil { // nobody above would catch it
				other = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		second, other = c.matchingOf(ctx, rows[half:])
	}()
	first, err := c.matchingOf(ctx, rows[:half])
	<-done
	return append(first, second...), errors.Join(err, other)
}

func (c *Cursor) matchingOf(ctx context.Context, rows []memories.Memory) ([]View, error) {
	var found []View
	opener, matcher := c.key.Opener(), *c.search
	for i := range rows {
		if i%yieldRows == yieldRows-1 {
			runtime.Gosched()
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		m := &rows[i]
		plain, err := opener.Open(m.ID, m.Sealed)
		if err != nil {
			return nil, err
		}
		// The text is looked at before the buffer is used again.
		text := unsafe.String(unsafe.SliceData(plain), len(plain))
		if matcher.match(text) {
			found = append(found, viewOf(strings.Clone(text), m))
		}
	}
	return found, nil
}

func (c *Cursor) sealed(ctx context.Context, to uint64) ([]memories.Memory, error) {
	if c.service.Bodies == nil {
		rows, _, err := load(ctx, c.service.Pool, c.owner, c.next, to)
		return rows, err
	}
	return c.service.Bodies.rows(ctx, c.service.Pool, c.owner, c.next, to)
}

// settle says of what was found whether it is anchored by now, which the rows
// do not.
func (c *Cursor) settle(ctx context.Context, found []View) error {
	if len(found) == 0 {
		return nil
	}
	cover, err := memories.CoverOf(ctx, c.service.Pool, c.owner, found[0].LeafIndex, found[len(found)-1].LeafIndex)
	if err != nil {
		return err
	}
	for i := range found {
		found[i].BatchID, found[i].Anchored = cover.Of(found[i].LeafIndex)
	}
	return nil
}
