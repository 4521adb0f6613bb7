package search

import (
	"context"
	"encoding/binary"
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/readmodel/bodypages"
	"github.com/memory-ledger/ledger/services/cachestats"
	"github.com/memory-ledger/ledger/services/keystore"
)

// BodySegments caches the folded texts of owners who search, page by page, within a
// budget of bytes. It holds only ciphertext: each segment is sealed under a key derived
// from the owner's data key. Leaves never change, so a page stays correct while the read
// models that it was read from are live.
type BodySegments struct {
	mu     sync.Mutex
	budget int64
	used   int64
	owners *simplelru.LRU[events.Owner, *ownerPages] // least recently searched first
	// Hits counts reads of a range by Find or Texts; a hit needed no database.
	Hits cachestats.Counter
}

// ownerPages holds the pages of an owner by number. BodySegments.mu protects it.
type ownerPages struct {
	pages map[uint64]keptPage
	bytes int64
}

// keptPage is a page's sealed segments. It does not change once it is complete.
type keptPage struct {
	leaves   int
	segments []sealedSegment
}

type sealedSegment struct {
	first  uint64
	sealed []byte
}

// Approximate bytes that an owner and a page take in addition to the sealed bytes.
const (
	ownerOverhead = 384
	pageOverhead  = 160
)

// charged returns the bytes that the page is charged for; 0 if it has no leaves.
func (p keptPage) charged() int64 {
	if p.leaves == 0 {
		return 0
	}
	bytes := int64(pageOverhead)
	for _, s := range p.segments {
		bytes += int64(cap(s.sealed))
	}
	return bytes
}

// NewBodySegments returns a cache of at most budget bytes.
func NewBodySegments(budget int64) *BodySegments {
	owners, err := simplelru.NewLRU[events.Owner, *ownerPages](math.MaxInt32, nil)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &BodySegments{budget: budget, owners: owners}
}

// Bytes returns how many bytes are kept.
func (b *BodySegments) Bytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Drop drops the pages of an owner, for example when the owner's key is forgotten and
// nothing can open them. The empty owner stands for all owners.
func (b *BodySegments) Drop(owner events.Owner) {
	if owner == "" {
		b.Forget()
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if o, ok := b.owners.Peek(owner); ok {
		b.owners.Remove(owner)
		b.used -= o.bytes
	}
}

// Forget drops everything. Pages that are being read during the call are not kept.
func (b *BodySegments) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.owners.Purge()
	b.used = 0
}

// Light reports whether all of the owner's first leaves are kept and the owner's pages
// take at most the given bytes.
func (b *BodySegments) Light(owner events.Owner, leaves uint64, bytes int64) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	o, ok := b.owners.Peek(owner)
	if !ok || o.bytes > bytes {
		return false
	}
	for n := uint64(0); n*bodypages.Leaves < leaves; n++ {
		if uint64(o.pages[n].leaves) < min(bodypages.Leaves, leaves-n*bodypages.Leaves) {
			return false
		}
	}
	return true
}

// get returns the owner's pages, and in kept the cached pages of the range, by number
// from the range's first page. A page counts as cached only if all its leaves in the
// range are kept; the others are empty in kept.
func (b *BodySegments) get(r Range) (o *ownerPages, kept []keptPage) {
	first, end := r.pages()
	kept = make([]keptPage, end-first)
	b.mu.Lock()
	defer b.mu.Unlock()
	o, ok := b.owners.Get(r.Owner)
	if !ok {
		o = &ownerPages{pages: map[uint64]keptPage{}, bytes: ownerOverhead}
		b.makeRoom(o, o.bytes)
		b.owners.Add(r.Owner, o)
		b.used += o.bytes
	}
	hit := true
	for i := range kept {
		if p := o.pages[first+uint64(i)]; uint64(p.leaves) >= min(bodypages.Leaves, r.To-(first+uint64(i))*bodypages.Leaves) {
			kept[i] = p
		} else {
			hit = false
		}
	}
	b.Hits.Count(hit)
	return o, kept
}

// put keeps a page, unless the owner was dropped meanwhile or the owner's pages exceed
// the budget. To make room, it drops other owners, least recently searched first.
func (b *BodySegments) put(owner events.Owner, o *ownerPages, number uint64, p keptPage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	grown := p.charged() - o.pages[number].charged()
	if current, ok := b.owners.Peek(owner); !ok || current != o || p.leaves < o.pages[number].leaves || o.bytes+grown > b.budget {
		return
	}
	b.makeRoom(o, grown)
	o.pages[number] = p
	o.bytes += grown
	b.used += grown
}

// makeRoom drops the owners who searched longest ago, but never o.
func (b *BodySegments) makeRoom(o *ownerPages, bytes int64) {
	for b.used+bytes > b.budget {
		oldest, other, ok := b.owners.GetOldest()
		if !ok || other == o {
			return // o was used last, so it is the last in the list
		}
		b.owners.Remove(oldest)
		b.used -= other.bytes
	}
}

// keptTexts is a source that caches the segments of another source.
type keptTexts struct {
	kept  *BodySegments
	fresh source
}

// segments implements source.
func (k keptTexts) segments(ctx context.Context, r Range, yield func(segment) error) (reached uint64, err error) {
	owner, kept := k.kept.get(r)
	keeper, err := r.Key.Keeper()
	if err != nil {
		return 0, err
	}
	var buffer []byte
	for i := 0; i < len(kept); {
		if kept[i].leaves == 0 {
			run := r
			run.From = (r.From/bodypages.Leaves + uint64(i)) * bodypages.Leaves
			for ; i < len(kept) && kept[i].leaves == 0; i++ {
				run.To = min(r.To, (r.From/bodypages.Leaves+uint64(i)+1)*bodypages.Leaves)
			}
			if reached, err = k.read(ctx, run, owner, keeper, yield); err != nil || reached < run.To {
				return reached, err
			}
			continue
		}
		for _, s := range kept[i].segments {
			if buffer, err = keeper.Open(buffer, place(s.first, kept[i].leaves), s.sealed); err != nil {
				return 0, err
			}
			if err := yield(segment{s.first, buffer}); err != nil {
				return 0, err
			}
		}
		i++
	}
	return r.To, nil
}

// read yields a run of pages that are not cached. It caches each page that arrives whole.
func (k keptTexts) read(ctx context.Context, run Range, owner *ownerPages, keeper *keystore.Keeper, yield func(segment) error) (uint64, error) {
	var p keptPage
	return k.fresh.segments(ctx, run, func(s segment) error {
		number := s.page()
		size := int(min(bodypages.Leaves, run.To-number*bodypages.Leaves))
		if s.first%bodypages.Leaves == 0 {
			p = keptPage{}
		}
		sealed := keeper.Seal(make([]byte, 0, len(s.texts)+keystore.KeptOverhead), place(s.first, size), s.texts)
		p.segments = append(p.segments, sealedSegment{s.first, sealed})
		if p.leaves += s.leaves(); p.leaves == size {
			k.kept.put(run.Owner, owner, number, p)
		}
		return yield(s)
	})
}

// place returns the data that is bound into a sealed segment: its first leaf, and the
// number of leaves of its page.
func place(first uint64, leaves int) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, first), uint32(leaves))
}
