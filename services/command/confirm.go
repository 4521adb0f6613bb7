package command

import (
	"context"
	"fmt"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

// confirm compares a state that was loaded, and brought up to the log's end, with the
// owner's newest messages. What is decided on a wrong version or number of leaves would
// contradict the log for good, and then no rebuild could follow it any more.
//
// It reports whether it could: where a message came meanwhile, whatever is decided on the
// state meets the append's expectation, and the state is compared after it was brought up
// to the log's end again.
func (x *Executor) confirm(ctx context.Context, s *State) (compared bool, err error) {
	batch, compared, err := eventlog.Confirm(ctx, x.cfg.Log, events.FamilyLedger, s.Owner, s.Seq, s.Version)
	if !compared {
		return false, err
	}
	leaves, some := leavesAfter(batch)
	if !some {
		r, found, err := x.cfg.Log.OwnerNewest(ctx, events.FamilyLedger, s.Owner, events.KindMemory)
		if err != nil || r.Seq > s.Seq {
			return false, err
		}
		if found {
			if batch, err = events.DecodeBatch(r.Payload); err != nil {
				return false, fmt.Errorf("sequence %d: %w", r.Seq, err)
			}
			leaves, _ = leavesAfter(batch)
		}
	}
	if leaves != s.Leaves {
		return false, fmt.Errorf("%w: of %s it has %d leaves, the log %d", eventlog.ErrContradiction, s.Owner, s.Leaves, leaves)
	}
	return true, nil
}

// leavesAfter is how many leaves the owner has after a message, if it holds one.
func leavesAfter(batch []events.Event) (leaves uint64, some bool) {
	for i := range batch {
		switch data := batch[i].Data.(type) {
		case *events.MemoryWritten:
			leaves, some = data.LeafIndex+1, true
		case *events.MemoryRetracted:
			leaves, some = data.Leaves, true
		case *events.OwnerErased:
			leaves, some = data.Leaves, true
		}
	}
	return leaves, some
}
