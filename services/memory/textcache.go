package memory

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/services/cachestats"
)

// TextCache keeps what owners read lately, within a budget of bytes: the opened texts of
// owners who search, the words of owners who rank, and rows that were read by id. It is the
// only cache of memories.
//
// Texts and words are in the clear, so they are dropped with the owner's key: see
// [TextCache.Drop]. Leaves never change, so both stay right while the log grows. Rows do
// change: they are valid only while the fence returns the same head for the owner as before
// they were read.
type TextCache struct {
	mu     sync.Mutex
	budget int64
	used   int64
	owners *simplelru.LRU[events.Owner, *kept] // least recently used first
	// Hits counts the reads that needed no database: by id, and of runs of texts.
	Hits cachestats.Counter
}

// kept is what is kept of an owner. TextCache.mu protects it.
type kept struct {
	bytes  int64
	chunks map[uint64]*chunk // by number

	head     fence.Head                  // of the rows
	rows     map[string]*memories.Memory // by id
	rowBytes int64
}

func NewTextCache(budget int64) *TextCache {
	owners, err := simplelru.NewLRU[events.Owner, *kept](math.MaxInt32, nil)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &TextCache{budget: budget, owners: owners}
}

// Bytes returns about how many bytes are kept.
func (t *TextCache) Bytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used
}

// Drop drops what is kept of an owner, as when the owner's key is forgotten. The empty
// owner stands for all owners. A read that began before, with the earlier key, does not bring
// them back.
func (t *TextCache) Drop(owner events.Owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if owner == "" {
		t.owners.Purge()
		t.used = 0
	} else if o, ok := t.owners.Peek(owner); ok {
		t.remove(owner, o)
	}
}

func (t *TextCache) remove(owner events.Owner, o *kept) {
	t.owners.Remove(owner)
	t.used -= o.bytes
}

// of returns what is kept of an owner. mu must be locked.
func (t *TextCache) of(owner events.Owner) *kept {
	o, ok := t.owners.Get(owner)
	if !ok {
		o = &kept{chunks: map[uint64]*chunk{}}
		t.owners.Add(owner, o)
		t.grow(o, 512) // the owner, and empty maps
	}
	return o
}

// grow charges an owner for more bytes, and drops other owners to make room. It reports
// false, and charges nothing, if the owner alone would exceed the budget.
func (t *TextCache) grow(o *kept, bytes int64) bool {
	if bytes > 0 && o.bytes+bytes > t.budget {
		return false
	}
	o.bytes += bytes
	t.used += bytes
	for t.used > t.budget {
		owner, oldest, _ := t.owners.GetOldest()
		if oldest == o {
			break // o was used last, so there is no other
		}
		t.remove(owner, oldest)
	}
	return true
}

// kept returns what is kept of an owner, to pass it to put.
func (t *TextCache) kept(owner events.Owner) *kept {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of(owner)
}

// chunks returns an owner's kept chunks with the numbers from first to end, nil where one
// is missing.
func (t *TextCache) chunks(owner events.Owner, first, end uint64) []*chunk {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.of(owner)
	found := make([]*chunk, end-first)
	for i := range found {
		found[i] = o.chunks[first+uint64(i)]
	}
	return found
}

// put keeps a chunk, unless the owner was dropped since kept returned o.
func (t *TextCache) put(owner events.Owner, o *kept, c *chunk) {
	t.mu.Lock()
	defer t.mu.Unlock()
	current, ok := t.owners.Get(owner) // now used last, as grow expects
	if !ok || current != o {
		return
	}
	was := o.chunks[c.number]
	if was != nil && (was.leaves() > c.leaves() || was.leaves() == c.leaves() && was.indexed >= c.indexed) {
		return // another search read more meanwhile
	}
	if t.grow(o, c.bytes()-was.bytes()) {
		o.chunks[c.number] = c
	}
}

// at returns what is kept of an owner at a head; what was kept at an older head is dropped.
// It is nil at an unknown head, and at one that is older than what is kept.
func (t *TextCache) at(r Reader) *kept {
	if !r.Head.Known() {
		return nil
	}
	o := t.of(r.Owner)
	switch {
	case r.Head.Before(o.head):
		return nil
	case r.Head != o.head:
		o.head = r.Head
		t.dropRows(o)
	}
	return o
}

func (t *TextCache) dropRows(o *kept) {
	t.grow(o, -o.rowBytes)
	o.rows, o.rowBytes = map[string]*memories.Memory{}, 0
}

// row returns a row by its id, or nil.
func (t *TextCache) row(r Reader, id string) (m *memories.Memory) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o := t.at(r); o != nil {
		m = o.rows[id]
	}
	t.Hits.Count(m != nil)
	return m
}

// putRow keeps a row that was read after the fence returned the reader's head. A slower
// reader may have read its row earlier: a row is not replaced by one that lacks an event.
func (t *TextCache) putRow(r Reader, m *memories.Memory) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.at(r)
	if o == nil || m.Owner != r.Owner {
		return
	}
	was := o.rows[m.ID]
	if was != nil && (was.Anchored && !m.Anchored || was.Retracted && !m.Retracted) {
		return
	}
	bytes := int64(sizeOf(m)) + 640 // beside the texts
	if was != nil {
		bytes = 0 // the same leaf
	}
	if !t.grow(o, bytes) {
		if t.dropRows(o); !t.grow(o, bytes) {
			return
		}
	}
	o.rowBytes += bytes
	o.rows[m.ID] = m
}

// sizeOf returns about how many bytes the parts of a row take that have no bound.
func sizeOf(m *memories.Memory) int {
	return len(m.Sealed) + m.Metadata.Len() + 80*(len(m.Supersedes)+len(m.SupersededBy))
}
