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

// extent is the size of an owner's log, and how much of it is anchored. It is immutable.
type extent struct {
	leaves  uint64
	newest  *batches.Batch // the largest confirmed batch, or nil
	without without        // leaves
	root    *events.Hash   // of all leaves; nil if it was not asked for
	// waiting is when the oldest leaf was written that is not anchored. It is nil if there
	// is none, and while root is nil.
	waiting *events.Timestamp
}

// holds reports whether the extent includes a row, and its anchoring if the row is
// anchored.
func (e extent) holds(m *memories.Memory) bool {
	return m.LeafIndex < e.leaves && (!m.Anchored || m.LeafIndex < e.anchored())
}

// keptHeads is how many owners' extents are kept: some 10 MB, and 8 bytes for each
// retracted leaf.
const keptHeads = 10_000

// HeadCache keeps the last extent of each log. An entry is valid while the fence returns
// the same head for the owner as before the extent was read.
type HeadCache struct {
	mu   sync.Mutex
	kept *simplelru.LRU[events.Owner, keptHead]
	// Hits counts the lookups that needed no database.
	Hits cachestats.Counter
}

type keptHead struct {
	extent
	head fence.Head // the fence's head from before the extent was read
}

// NewHeadCache returns an empty cache.
func NewHeadCache() *HeadCache {
	kept, err := simplelru.NewLRU[events.Owner, keptHead](keptHeads, nil)
	if err != nil {
		panic(err) // only if the size is not positive
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

// put stores an extent that was read after the fence returned the reader's head. Of two
// extents read at the same head, the longer one is kept: it may include an event that was
// not acknowledged yet, and a reader that saw it must not see a shorter log afterwards.
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

// follows reports whether e includes everything that an earlier extent has.
func (e extent) follows(before extent) bool {
	return e.leaves >= before.leaves && e.anchored() >= before.anchored()
}

// anchored returns how many leaves the largest confirmed batch covers.
func (e extent) anchored() uint64 {
	if e.newest == nil {
		return 0
	}
	return e.newest.Size
}

// extent returns the extent of the reader's log.
func (s *Service) extent(ctx context.Context, r Reader) (extent, error) {
	if e, ok := s.Heads.get(r); ok {
		return e, nil
	}
	return s.readExtent(ctx, r)
}

// extentWith is extent for a reader that has already read one of the rows. A cached extent
// may be older than the row. A freshly read one is not, unless the read models were
// replaced by older ones in between.
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

// readExtent reads the extent in one round trip. The batch is read first, so that it never
// covers more leaves than the log has.
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
		e.newest = &newest
	}
	s.Heads.put(r, e)
	return e, nil
}
