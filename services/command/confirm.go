package command

import (
	"context"
	"fmt"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

// confirm compares a loaded state, after it was brought up to the log's end, with the
// owner's newest messages. A decision on a wrong version or a wrong number of leaves would
// contradict the log for good, and no rebuild could follow it.
//
// compared is false if a message arrived meanwhile. The state may still be used: an append
// on it fails on the expected sequence, and the state is compared after it has caught up
// again.
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

// leavesAfter returns how many leaves the owner has after a message, if the message tells.
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
