package memory

import (
	"context"
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/pages"
	"github.com/memory-ledger/ledger/services/hits"
)

// Bodies keeps the sealed bodies of owners who search, page by page, within a
// budget of bytes. It holds ciphertext only, as the database does. Leaves never
// change, so what is kept is never wrong; only what comes later is read.
type Bodies struct {
	mu     sync.Mutex
	budget int64
	used   int64
	owners *simplelru.LRU[events.Owner, *ownerBodies]
	// Hits counts the pieces of searches that needed no database.
	Hits hits.Counter
}

// ownerBodies is a prefix of an owner's log.
type ownerBodies struct {
	loading sync.Mutex // held while the prefix grows
	mu      sync.RWMutex
	pages   []pages.Page // all but the last are full
	bytes   int64        // under Bodies.mu
}

// ownerOverhead is about what an owner takes beside the pages, of which there
// may be none: those of a log larger than the budget are not kept.
const ownerOverhead = 384

// NewBodies returns a cache of at most budget bytes.
func NewBodies(budget int64) *Bodies {
	owners, err := simplelru.NewLRU[events.Owner, *ownerBodies](math.MaxInt32, nil)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &Bodies{budget: budget, owners: owners}
}

// Bytes returns how much is kept.
func (b *Bodies) Bytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

func (b *Bodies) of(owner events.Owner) *ownerBodies {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o, ok := b.owners.Get(owner); ok {
		return o
	}
	o := &ownerBodies{bytes: ownerOverhead}
	b.makeRoom(o, o.bytes)
	b.owners.Add(owner, o)
	b.used += o.bytes
	return o
}

// makeRoom puts out those who searched longest ago, but not o.
func (b *Bodies) makeRoom(o *ownerBodies, bytes int64) {
	for b.used+bytes > b.budget {
		oldest, other, ok := b.owners.GetOldest()
		if !ok || other == o {
			return // o was used last, so it comes last
		}
		b.owners.Remove(oldest)
		b.used -= other.bytes
	}
}

// charge makes room for what an owner's prefix grew by, at the cost of those
// who searched longest ago. It reports false where there is no room: for an
// owner larger than the budget, or one that was put out meanwhile.
func (b *Bodies) charge(owner events.Owner, o *ownerBodies, bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if current, ok := b.owners.Peek(owner); !ok || current != o {
		return false
	}
	if o.bytes+bytes > b.budget {
		return false
	}
	b.makeRoom(o, bytes)
	o.bytes += bytes
	b.used += bytes
	return true
}

// size is how many leaves the prefix has.
func (o *ownerBodies) size() uint64 {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if len(o.pages) == 0 {
		return 0
	}
	return o.pages[len(o.pages)-1].End()
}

// kept returns the pages that hold the leaves from one index up to another, or
// as many of them as there are.
func (o *ownerBodies) kept(from, to uint64) []pages.Page {
	o.mu.RLock()
	defer o.mu.RUnlock()
	have := uint64(len(o.pages))
	first, end := min(from/pages.Leaves, have), min(pagesOf(to), have)
	// A copy: the last page is exchanged when it grows.
	return append([]pages.Page(nil), o.pages[first:max(first, end)]...)
}

// pagesOf is how many pages a number of leaves fills or begins.
func pagesOf(leaves uint64) uint64 { return (leaves + pages.Leaves - 1) / pages.Leaves }

// pages calls yield with the pages that hold the leaves from one index up to
// another, in any order, as they are there; the leaves must be in the read
// model. The last page may hold more leaves. It returns how far it came, which
// may be less, and then it may have yielded pages beyond.
func (b *Bodies) pages(ctx context.Context, pool *pgxpool.Pool, owner events.Owner, from, to uint64, yield func(pages.Page)) (reached uint64, err error) {
	o := b.of(owner)
	if b.Hits.Count(o.size() >= to) {
		yieldAll(o.kept(from, to), yield)
		return to, nil
	}
	if o.size() < from {
		// This search did not begin at the beginning, or what it began with is
		// not kept: only what it asks for is read. Nobody waits for anybody, who
		// would have a turn meanwhile that others could use.
		fresh, err := load(ctx, pool, owner, from, to, pages.Page{}, yield)
		return endOf(fresh), err
	}
	o.loading.Lock()
	defer o.loading.Unlock()
	have := o.size() // only we make it grow
	if have >= to {  // somebody else was faster
		yieldAll(o.kept(from, to), yield)
		return to, nil
	}
	begun := pages.Page{} // the page that is to be continued
	for _, p := range o.kept(from, have) {
		if p.Len() < pages.Leaves {
			begun = p
		} else {
			yield(p)
		}
	}
	fresh, err := load(ctx, pool, owner, have-uint64(begun.Len()), to, begun, yield)
	if err != nil {
		return 0, err
	}
	grown := -bytesOf(begun)
	for _, p := range fresh {
		grown += bytesOf(p)
	}
	if b.charge(owner, o, grown) {
		o.mu.Lock()
		o.pages = append(o.pages[:have/pages.Leaves], fresh...)
		o.mu.Unlock()
	}
	return endOf(fresh), nil
}

func endOf(all []pages.Page) uint64 {
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].End()
}

func yieldAll(all []pages.Page, yield func(pages.Page)) {
	for _, p := range all {
		yield(p)
	}
}

// pageOverhead is about what a page takes beside its bytes.
const pageOverhead = 64

// bytesOf is what is charged for a page; nothing for none.
func bytesOf(p pages.Page) int64 {
	if p.Len() == 0 {
		return 0
	}
	return int64(p.Bytes()) + pageOverhead
}
