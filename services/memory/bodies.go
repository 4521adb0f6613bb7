package memory

import (
	"context"
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/pages"
	"github.com/memory-ledger/ledger/services/hits"
)

// Bodies keeps the sealed bodies of owners who search, page by page, within a
// budget of bytes. It holds ciphertext only, as the database does. Leaves never
// change, so what is kept is right for as long as the read models are those that it
// was read of; only what comes later is read.
//
// A full page comes as the database has it. Whoever searches it for the second
// time opens its bodies one by one once more, and puts all of its texts, sealed as
// one, in its place.
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
	loading sync.Mutex   // held while the prefix grows
	mu      sync.RWMutex // is taken before Bodies.mu where both are
	pages   []leafPage   // all but the last are full, and all are kept
	bytes   int64        // under Bodies.mu
}

// leafPage is a page as a search gets it.
type leafPage struct {
	bodies pages.Page // of no leaves where there are texts
	texts  *texts     // of a full page; or nil
	kept   bool       // it comes from Bodies: who looks through it was not the first
}

// first is the index of the first leaf.
func (p leafPage) first() uint64 {
	if p.texts != nil {
		return p.texts.first
	}
	return p.bodies.First()
}

// end is the index after the last leaf's.
func (p leafPage) end() uint64 {
	if p.texts != nil {
		return p.texts.end()
	}
	return p.bodies.End()
}

// bytes is how many bytes the page keeps.
func (p leafPage) bytes() int {
	if p.texts != nil {
		return cap(p.texts.data)
	}
	return p.bodies.Bytes()
}

// pageOverhead is about what a page takes beside its bytes.
const pageOverhead = 96

// charged is what is charged for a page; nothing for none.
func (p leafPage) charged() int64 {
	if p.bytes() == 0 {
		return 0
	}
	return int64(p.bytes()) + pageOverhead
}

// begun reports whether the page is to be continued.
func (p leafPage) begun() bool { return p.texts == nil && p.bodies.Len() < pages.Leaves }

// wantsTexts reports whether the texts of the page should be kept in its place.
func (p leafPage) wantsTexts() bool {
	return p.kept && p.texts == nil && p.bodies.Len() == pages.Leaves && p.bodies.Bytes() <= maxTexts
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

// Forget drops everything. What is being read meanwhile is not kept.
func (b *Bodies) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.owners.Purge()
	b.used = 0
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

// light reports whether all bodies of an owner's log are kept, and have few bytes.
func (b *Bodies) light(owner events.Owner, leaves uint64, bytes int64) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	o, ok := b.owners.Peek(owner)
	few := ok && o.bytes <= bytes
	b.mu.Unlock()
	return few && o.size() >= leaves
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
	return o.pages[len(o.pages)-1].end()
}

// kept returns the pages that hold the leaves from one index up to another, or
// as many of them as there are.
func (o *ownerBodies) kept(from, to uint64) []leafPage {
	o.mu.RLock()
	defer o.mu.RUnlock()
	have := uint64(len(o.pages))
	first, end := min(from/pages.Leaves, have), min(pagesOf(to), have)
	// A copy: the last page is exchanged when it grows, others for their texts.
	return append([]leafPage(nil), o.pages[first:max(first, end)]...)
}

// pagesOf is how many pages a number of leaves fills or begins.
func pagesOf(leaves uint64) uint64 { return (leaves + pages.Leaves - 1) / pages.Leaves }

// whole returns the pages that hold the leaves from one index up to another, where
// all of them are kept. The last may hold more.
func (b *Bodies) whole(owner events.Owner, from, to uint64) ([]leafPage, bool) {
	if b == nil {
		return nil, false
	}
	o := b.of(owner)
	if !b.Hits.Count(o.size() >= to) {
		return nil, false
	}
	return o.kept(from, to), true
}

// pages calls yield, as source.load does, with the pages that hold the leaves from
// one index up to another, in any order, as they are there; the leaves must be in
// the read model. The last page may hold more leaves. It returns how far it came,
// which may be less, and then it may have yielded pages beyond.
func (b *Bodies) pages(ctx context.Context, s source, from, to uint64, yield func(leafPage)) (reached uint64, err error) {
	o := b.of(s.owner)
	if o.size() < from {
		// This search did not begin at the beginning, or what it began with is
		// not kept: only what it asks for is read. Nobody waits for anybody, who
		// would have a turn meanwhile that others could use.
		fresh, err := s.load(ctx, from, to, pages.Page{}, once(yield))
		return endOf(fresh), err
	}
	o.loading.Lock()
	defer o.loading.Unlock()
	have := o.size() // only we make it grow
	if have >= to {  // somebody else was faster
		for _, p := range o.kept(from, to) {
			yield(p)
		}
		return to, nil
	}
	begun := pages.Page{} // the page that is to be continued
	for _, p := range o.kept(from, have) {
		if p.begun() {
			begun = p.bodies
		} else {
			yield(p)
		}
	}
	fresh, err := s.load(ctx, have-uint64(begun.Len()), to, begun, once(yield))
	if err != nil {
		return 0, err
	}
	grown := -leafPage{bodies: begun}.charged()
	kept := make([]leafPage, len(fresh))
	for i, p := range fresh {
		kept[i] = leafPage{bodies: p, kept: true}
		grown += kept[i].charged()
	}
	if b.charge(s.owner, o, grown) {
		o.mu.Lock()
		o.pages = append(o.pages[:have/pages.Leaves], kept...)
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

// once passes on pages that nobody looked through before.
func once(yield func(leafPage)) func(pages.Page) {
	return func(p pages.Page) { yield(leafPage{bodies: p}) }
}

// keepTexts puts the texts of a full page in its place, where that is still kept.
// Of several searches that made the same, one does. It takes no room, for they
// are shorter than the page.
func (b *Bodies) keepTexts(owner events.Owner, t *texts) {
	b.mu.Lock()
	o, ok := b.owners.Peek(owner)
	b.mu.Unlock()
	if !ok {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	at := t.first / pages.Leaves
	// Full pages never change, so it need not be the very one that was opened.
	if at >= uint64(len(o.pages)) || !o.pages[at].wantsTexts() {
		return
	}
	p := leafPage{texts: t, kept: true}
	if b.charge(owner, o, p.charged()-o.pages[at].charged()) {
		o.pages[at] = p
	}
}
