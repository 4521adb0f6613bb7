package recall

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/readmodel/bodypages"
	"github.com/memory-ledger/ledger/services/cachestats"
)

// Blocks keeps the indexes of owners who searched, within a budget of bytes. The indexes
// hold words of texts, so they are dropped with the owner's key: see [Blocks.Drop]. When
// the process comes near its memory limit (GOMEMLIMIT), all are dropped.
type Blocks struct {
	mu     sync.Mutex
	budget int64
	used   int64
	owners *simplelru.LRU[events.Owner, *ownerBlocks] // least recently asked first
	drops  uint64
	// Hits counts the lookups of blocks: a hit is a block that was kept.
	Hits cachestats.Counter
}

// ownerBlocks is the blocks of an owner: consecutive, from the first leaf on.
type ownerBlocks struct {
	blocks []*block
	bytes  int64
}

// NewBlocks returns a cache of at most budget bytes.
func NewBlocks(budget int64) *Blocks {
	owners, err := simplelru.NewLRU[events.Owner, *ownerBlocks](math.MaxInt32, nil)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &Blocks{budget: budget, owners: owners}
}

// Bytes returns how many bytes are kept.
func (k *Blocks) Bytes() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.used
}

// Drop drops an owner's index, as when the owner's key is forgotten. For the empty owner
// it drops all indexes. An index that is being made meanwhile is not kept either.
func (k *Blocks) Drop(owner events.Owner) {
	if owner == "" {
		k.Forget()
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drops++
	k.remove(owner)
}

// Forget drops everything.
func (k *Blocks) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drops++
	k.owners.Purge()
	k.used = 0
}

func (k *Blocks) remove(owner events.Owner) {
	if o, ok := k.owners.Peek(owner); ok {
		k.owners.Remove(owner)
		k.used -= o.bytes
	}
}

// generation changes when anything is dropped. A block that was begun before is not kept.
func (k *Blocks) generation() uint64 {
	if k == nil {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.drops
}

// get returns the block that begins with a leaf. It returns nil if no block is kept, if
// the block ends before the log does and in the middle of a page, or if it is crowded.
func (k *Blocks) get(owner events.Owner, first, size uint64) *block {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	o, ok := k.owners.Get(owner)
	if ok {
		for i, b := range o.blocks {
			if b.first != first {
				continue
			}
			end := first + uint64(b.leaves())
			if end < size && (end%bodypages.Leaves != 0 || k.crowded(o.blocks[i:], size)) {
				break
			}
			k.Hits.Count(true)
			return b
		}
	}
	k.Hits.Count(false)
	return nil
}

// crowded reports whether blocks that are short, because the log ended, should become
// one: the log now has enough leaves from the first one on to fill a block.
func (*Blocks) crowded(blocks []*block, size uint64) bool {
	return blocks[0].short && size-blocks[0].first >= blockLeaves
}

// put keeps a block. It replaces the kept blocks that begin with the same leaf or a later
// one.
func (k *Blocks) put(owner events.Owner, b *block, drops uint64) {
	if k == nil {
		return
	}
	pressed := pressed()
	k.mu.Lock()
	defer k.mu.Unlock()
	if pressed {
		k.owners.Purge()
		k.used = 0
		return
	}
	if k.drops != drops {
		return
	}
	o, ok := k.owners.Get(owner)
	if !ok {
		o = &ownerBlocks{}
		k.owners.Add(owner, o)
	}
	end := uint64(0)
	for i, other := range o.blocks {
		if other.first >= b.first {
			for _, gone := range o.blocks[i:] {
				o.bytes -= gone.bytes()
				k.used -= gone.bytes()
			}
			o.blocks = o.blocks[:i]
			break
		}
		end = other.first + uint64(other.leaves())
	}
	bytes := b.bytes()
	if end != b.first || o.bytes+bytes > k.budget {
		return // the previous block was dropped meanwhile, or the owner's blocks exceed the budget
	}
	for k.used+bytes > k.budget {
		oldest, _, ok := k.owners.GetOldest()
		if !ok || oldest == owner {
			return
		}
		k.remove(oldest)
	}
	o.blocks = append(o.blocks, b)
	o.bytes += bytes
	k.used += bytes
}

// pressed reports whether the process is near its memory limit.
func pressed() bool {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return false
	}
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Kind() == metrics.KindUint64 && float64(sample[0].Value.Uint64()) > 0.9*float64(limit)
}
