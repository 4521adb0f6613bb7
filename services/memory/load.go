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

// load reads the pages that hold the leaves from one index up to another, calls
// yield with each as soon as it is there, and returns them in order. Full pages
// come from their read model; the last, and what else that does not have, is
// made of rows. What is begun of the first page, if anything, need not be read.
//
// The leaves must be in the read model, and from begin a page.
func load(ctx context.Context, pool *pgxpool.Pool, owner events.Owner, from, to uint64, begun pages.Page, yield func(pages.Page)) ([]pages.Page, error) {
	first := from / pages.Leaves
	all := make([]pages.Page, pagesOf(to)-first)
	var parted []pages.Page // lack bodies
	next := first
	if begun.Len() > 0 {
		next++
	}
	if full := to / pages.Leaves; next < full {
		err := pages.Load(ctx, pool, owner, next, full, func(p pages.Page) error {
			if len(p.Absent()) > 0 {
				parted = append(parted, p)
				return nil
			}
			all[p.First()/pages.Leaves-first] = p
			yield(p)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, p := range parted {
		whole, err := pages.Complete(ctx, pool, owner, p)
		if err != nil {
			return nil, err
		}
		all[p.First()/pages.Leaves-first] = whole
		yield(whole)
	}
	for at := 0; at < len(all); at++ {
		if all[at].Len() > 0 {
			continue
		}
		end := at + 1
		for end < len(all) && all[end].Len() == 0 {
			end++
		}
		until := min(to, (first+uint64(end))*pages.Leaves)
		made, err := fromRows(ctx, pool, owner, (first+uint64(at))*pages.Leaves, until, begun)
		if err != nil {
			return nil, err
		}
		copy(all[at:], made)
		yieldAll(made, yield)
		begun, at = pages.Page{}, end
	}
	return all, nil
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
