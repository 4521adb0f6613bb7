package memory

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify/leaf"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/readmodel/batches"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/projections/readmodel/owners"
	"github.com/memory-ledger/ledger/projections/readmodel/retractions"
)

// extent is the size of an owner's log, and how much of it is anchored. It is immutable.
type extent struct {
	leaves uint64
	newest *batches.Batch // the largest confirmed batch, or nil
	erased uint64         // how many leaves, from the first on
}

// anchored returns how many leaves the largest confirmed batch covers.
func (e *extent) anchored() uint64 {
	if e.newest == nil {
		return 0
	}
	return e.newest.Size
}

// extentWith is extent for a reader that has already read one of the rows. The extent is not
// older than the row, unless the read models were replaced by older ones in between.
func (s *Service) extentWith(ctx context.Context, r Reader, m *memories.Memory) (*extent, error) {
	e, err := s.extent(ctx, r)
	if err == nil && (m.LeafIndex >= e.leaves || m.Anchored && m.LeafIndex >= e.anchored()) {
		err = fmt.Errorf("%w: leaf %d was there, of %d now", fence.ErrBehind, m.LeafIndex, e.leaves)
	}
	return e, err
}

// extent reads the extent in one round trip. The batch is read first, so that it never
// covers more leaves than the log has.
func (s *Service) extent(ctx context.Context, r Reader) (*extent, error) {
	var (
		e      extent
		batch  pgx.Batch
		newest batches.Batch
		found  bool
		owner  owners.Owner
		erased retractions.Erased
	)
	batches.QueueLatestConfirmed(&batch, r.Owner, &newest, &found)
	owners.QueueFind(&batch, r.Owner, &owner)
	retractions.QueueErased(&batch, r.Owner, &erased)
	if err := s.Pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("how far the log goes: %w", err)
	}
	e.leaves, e.erased = owner.LeafCount, min(erased.Leaves, owner.LeafCount)
	if found {
		e.newest = &newest
	}
	return &e, nil
}

// present returns those of the first leaves that were neither erased nor retracted. The caller
// has a time slot: with millions of retractions, the database needs a second.
func (s *Service) present(ctx context.Context, owner events.Owner, size, erased uint64) (leaf.Set, error) {
	retracted, _, err := retractions.Leaves(ctx, s.Pool, owner, size)
	if err != nil {
		return nil, err
	}
	set := leaf.Below(size)
	set.Drop(retracted)
	set.Drop(leaf.Below(erased))
	return set, nil
}
