package memory

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/memories"
)

// Bodies keeps the sealed bodies of owners who search, within a budget of
// bytes. It holds ciphertext only, as the database does. Leaves never change,
// so what is kept is never wrong; only what comes later is read.
type Bodies struct {
	mu     sync.Mutex
	budget int64
	used   int64
	owners *simplelru.LRU[events.Owner, *ownerBodies]
}

// ownerBodies is a prefix of an owner's log.
type ownerBodies struct {
	loading sync.Mutex // held while the prefix grows
	mu      sync.RWMutex
	rows    []memories.Memory
	bytes   int64 // under Bodies.mu
}

// rowOverhead is about what a row takes beside its texts.
const rowOverhead = 256

// NewBodies returns a cache of at most budget bytes.
func NewBodies(budget int64) *Bodies {
	owners, err := simplelru.NewLRU[events.Owner, *ownerBodies](math.MaxInt32, nil)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &Bodies{budget: budget, owners: owners}
}

func (b *Bodies) of(owner events.Owner) *ownerBodies {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o, ok := b.owners.Get(owner); ok {
		return o
	}
	o := &ownerBodies{}
	b.owners.Add(owner, o)
	return o
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
	for b.used+bytes > b.budget {
		oldest, other, ok := b.owners.GetOldest()
		if !ok || other == o {
			break // o was used last, so it comes last
		}
		b.owners.Remove(oldest)
		b.used -= other.bytes
	}
	o.bytes += bytes
	b.used += bytes
	return true
}

func (o *ownerBodies) from(from, to uint64) ([]memories.Memory, bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if to > uint64(len(o.rows)) {
		return nil, false
	}
	return o.rows[from:to:to], true
}

// rows returns the leaves from one index up to another, which must be in the
// read model. The rows are shared and must not be changed; whether they are
// anchored by now is not among what they say.
func (b *Bodies) rows(ctx context.Context, pool *pgxpool.Pool, owner events.Owner, from, to uint64) ([]memories.Memory, error) {
	o := b.of(owner)
	if rows, ok := o.from(from, to); ok {
		return rows, nil
	}
	o.loading.Lock()
	defer o.loading.Unlock()
	have := uint64(len(o.rows)) // only we make it grow
	if have >= to || have < from {
		// Somebody else was faster, or this search did not begin at the
		// beginning: then only what it asks for is read.
		if rows, ok := o.from(from, to); ok {
			return rows, nil
		}
		rows, _, err := load(ctx, pool, owner, from, to)
		return rows, err
	}
	fresh, bytes, err := load(ctx, pool, owner, have, to)
	if err != nil {
		return nil, err
	}
	if !b.charge(owner, o, bytes) {
		return append(append([]memories.Memory(nil), o.rows[from:have]...), fresh...), nil
	}
	o.mu.Lock()
	o.rows = append(o.rows, fresh...)
	o.mu.Unlock()
	rows, _ := o.from(from, to)
	return rows, nil
}

func load(ctx context.Context, pool *pgxpool.Pool, owner events.Owner, from, to uint64) ([]memories.Memory, int64, error) {
	rows, err := memories.Load(ctx, pool, owner, from, to)
	if err != nil {
		return nil, 0, err
	}
	if uint64(len(rows)) != to-from {
		return nil, 0, fmt.Errorf("load memories from %d: %d of %d leaves are in the read model", from, len(rows), to-from)
	}
	var bytes int64
	for i := range rows {
		bytes += int64(len(rows[i].Sealed)+2*rows[i].Metadata.Len()) + rowOverhead
	}
	return rows, bytes, nil
}
