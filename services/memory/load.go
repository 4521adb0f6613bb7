package memory

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/memories"
	"github.com/memory-ledger/ledger/projections/pages"
)

const (
	// rowPages is how many pages are made of rows at a time.
	rowPages = 4
	// loadBytes is how many bytes of rows are read at once; a page more may come
	// on top, which is 67 MB where all bodies are as long as they may be.
	loadBytes = 32 << 20
	// halfPages is how many pages are worth a question of their own: reading
	// them takes some milliseconds, and a question half of one.
	halfPages = 32
)

// source is where an owner's pages are read from.
type source struct {
	pool  *pgxpool.Pool
	owner events.Owner
	// both: halves of what is long are read by two connections at a time, where
	// that leaves one to others. A process of PostgreSQL hands out pages more
	// slowly than two of ours look through them.
	both bool
}

// halves reports whether so many pages are read by two connections.
func (s source) halves(count uint64) bool {
	if !s.both || count < 2*halfPages {
		return false
	}
	stat := s.pool.Stat()
	return stat.MaxConns()-stat.AcquiredConns() > 2
}

// load reads the pages that hold the leaves from one index up to another, calls
// yield with each as soon as it is there, by two goroutines at a time where both
// is set, and returns them in order, or as many from the first on as loadBytes
// allows. Those that it does not return it may have yielded all the same. Full
// pages come from their read model; the last, and what else that does not have,
// is made of rows. What is begun of the first page, if anything, need not be
// read.
//
// The leaves must be in the read model, and from begin a page.
func (s source) load(ctx context.Context, from, to uint64, begun pages.Page, yield func(pages.Page)) ([]pages.Page, error) {
	first := from / pages.Leaves
	all := make([]pages.Page, pagesOf(to)-first)
	next := first
	if begun.Len() > 0 {
		next++
	}
	if full := to / pages.Leaves; next < full {
		if err := s.loadFull(ctx, next, full, func(p pages.Page) error {
			all[p.First()/pages.Leaves-first] = p
			if len(p.Absent()) == 0 {
				yield(p)
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	for at, read := 0, 0; at < len(all); at++ {
		if read >= loadBytes {
			return all[:at], nil
		}
		var (
			made []pages.Page
			err  error
		)
		if p := all[at]; p.Len() == 0 {
			end := at + 1
			for end < len(all) && end < at+rowPages && all[end].Len() == 0 {
				end++
			}
			made, err = fromRows(ctx, s.pool, s.owner, (first+uint64(at))*pages.Leaves, min(to, (first+uint64(end))*pages.Leaves), begun)
			begun = pages.Page{}
		} else if len(p.Absent()) > 0 {
			p, err = pages.Complete(ctx, s.pool, s.owner, p)
			made = []pages.Page{p}
		}
		if err != nil {
			return nil, err
		}
		for i, p := range made {
			all[at+i] = p
			read += p.Bytes()
			yield(p)
		}
		at += max(0, len(made)-1)
	}
	return all, nil
}

// loadFull calls yield with the full pages from one number up to another that
// their read model has.
func (s source) loadFull(ctx context.Context, from, to uint64, yield func(pages.Page) error) error {
	if !s.halves(to - from) {
		return pages.Load(ctx, s.pool, s.owner, from, to, yield)
	}
	crew, ctx := newCrew(ctx)
	defer crew.stop(nil)
	middle := from + (to-from)/2
	crew.beside(func() error { return pages.Load(ctx, s.pool, s.owner, from, middle, yield) })
	crew.beside(func() error { return pages.Load(ctx, s.pool, s.owner, middle, to, yield) })
	return crew.wait()
}

// fromRows makes pages of rows, after what is begun of the first.
func fromRows(ctx context.Context, pool *pgxpool.Pool, owner events.Owner, from, to uint64, begun pages.Page) ([]pages.Page, error) {
	rows, err := memories.Load(ctx, pool, owner, from+uint64(begun.Len()), to)
	if err != nil {
		return nil, err
	}
	leaves := begun.Leaves()
	if want := to - from; uint64(len(leaves)+len(rows)) != want {
		return nil, fmt.Errorf("load memories from %d: %d of %d leaves are in the read model", from, len(leaves)+len(rows), want)
	}
	for i := range rows {
		id, err := uuid.Parse(rows[i].ID)
		if err != nil {
			return nil, fmt.Errorf("load memories: %w", err)
		}
		leaves = append(leaves, pages.Leaf{ID: id, Sealed: rows[i].Sealed})
	}
	made := make([]pages.Page, 0, pagesOf(to-from))
	for len(leaves) > 0 {
		n := min(len(leaves), pages.Leaves)
		made = append(made, pages.Of(from, leaves[:n]))
		leaves, from = leaves[n:], from+uint64(n)
	}
	return made, nil
}
