package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/readmodel/batches"
	"github.com/memory-ledger/ledger/projections/readmodel/erasures"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/projections/readmodel/owners"
	"github.com/memory-ledger/ledger/projections/readmodel/retractions"
	"github.com/memory-ledger/ledger/services/cachestats"
)

// extent is how far an owner's log goes, and how far of that is anchored. It is
// not changed once it is made.
type extent struct {
	leaves  uint64
	newest  *batches.Batch // the largest that is confirmed, nil before there is one
	without without        // leaves
	root    *events.Hash   // of all leaves; nil if it was not asked for
}

// holds reports whether a row was there, and was anchored if it says so, when the
// extent was read.
func (e extent) holds(m *memories.Memory) bool {
	return m.LeafIndex < e.leaves && (!m.Anchored || m.LeafIndex < e.anchored())
}

// keptHeads is how many owners' are kept: some 10 MB.
const keptHeads = 10_000

// HeadCache keeps how far logs go, as it was last read, for as long as the fence
// says of the owner what it said before that.
type HeadCache struct {
	mu   sync.Mutex
	kept *simplelru.LRU[events.Owner, keptHead]
	// Hits counts how often no database was asked.
	Hits cachestats.Counter
}

type keptHead struct {
	extent
	head fence.Head // what the fence returned before it was read
}

// NewHeadCache returns an empty cache.
func NewHeadCache() *HeadCache {
	kept, err := simplelru.NewLRU[events.Owner, keptHead](keptHeads, nil)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &HeadCache{kept: kept}
}

func (x *HeadCache) get(r Reader) (extent, bool) {
	if x == nil {
		return extent{}, false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	e, ok := x.kept.Get(r.Owner)
	return e.extent, x.Hits.Count(ok && r.Head.Known() && e.head == r.Head)
}

// put keeps what was read after the fence returned the reader's head. Of two that
// were read at the same head, the longer stays. It may include an event that was
// not acknowledged yet, and a reader that saw it must not see a shorter log
// afterwards.
func (x *HeadCache) put(r Reader, e extent) {
	if x == nil || !r.Head.Known() {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if was, ok := x.kept.Peek(r.Owner); ok && (r.Head.Before(was.head) || was.head == r.Head && !e.follows(was.extent)) {
		return
	}
	x.kept.Add(r.Owner, keptHead{e, r.Head})
}

// follows reports whether nothing was seen before that is not in e.
func (e extent) follows(before extent) bool {
	return e.leaves >= before.leaves && e.anchored() >= before.anchored()
}

// anchored is how many leaves a confirmed batch covers.
func (e extent) anchored() uint64 {
	if e.newest == nil {
		return 0
	}
	return e.newest.Size
}

// extent returns how far the reader's log goes.
func (s *Service) extent(ctx context.Context, r Reader) (extent, error) {
	if e, ok := s.Heads.get(r); ok {
		return e, nil
	}
	return s.readExtent(ctx, r)
}

// extentWith is extent for a reader that has read one of the rows. The cached
// extent may be older than that row. An extent that is read now is not, unless the
// read models were replaced by older ones in between.
func (s *Service) extentWith(ctx context.Context, r Reader, m *memories.Memory) (extent, error) {
	if e, ok := s.Heads.get(r); ok && e.holds(m) {
		return e, nil
	}
	e, err := s.readExtent(ctx, r)
	if err == nil && !e.holds(m) {
		err = fmt.Errorf("%w: leaf %d was there, of %d now", fence.ErrBehind, m.LeafIndex, e.leaves)
	}
	return e, err
}

// readExtent asks the database, once. The batch comes first, so that it never
// covers more than there is.
func (s *Service) readExtent(ctx context.Context, r Reader) (e extent, err error) {
	var (
		batch  pgx.Batch
		newest batches.Batch
		found  bool
		owner  owners.Owner
		erased erasures.Erased
	)
	batches.QueueLatestConfirmed(&batch, r.Owner, &newest, &found)
	owners.QueueFind(&batch, r.Owner, &owner)
	retractions.QueueLeaves(&batch, r.Owner, &e.without.retracted)
	erasures.QueueFind(&batch, r.Owner, &erased)
	if err := s.Pool.SendBatch(ctx, &batch).Close(); err != nil {
		return extent{}, fmt.Errorf("how far the log goes: %w", err)
	}
	e.leaves, e.without.erased = owner.LeafCount, erased.Leaves
	e.without.retracted = slices.DeleteFunc(e.without.retracted, func(leaf uint64) bool { return leaf < erased.Leaves })
	if found {
		newest.Transaction = nil // long, and not needed
		e.newest = &newest
	}
	s.Heads.put(r, e)
	return e, nil
}
