package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/memory-ledger/ledger/events"
)

// ErrContradiction: the read model tells of an owner what the log does not. Nothing was
// stored. Answer 503: a rebuild mends it.
var ErrContradiction = errors.New("the read model contradicts the log; run ledger rebuild --force")

// confirm compares a state that was loaded, and brought up to the log's end, with the
// owner's newest messages. What is decided on a wrong version or number of leaves would
// contradict the log for good, and then no rebuild could follow it any more.
//
// It reports whether it could: where a message came meanwhile, whatever is decided on the
// state meets the append's expectation, and the state is compared after it was brought up
// to the log's end again.
func (x *Executor) confirm(ctx context.Context, s *State) (compared bool, err error) {
	newest, batch, err := x.newest(ctx, s.Owner, "")
	if err != nil || newest > s.Seq {
		return false, err
	}
	version, leaves, some := 0, uint64(0), false
	if newest > 0 {
		version = batch[0].OwnerVersion
		leaves, some = leavesAfter(batch)
	}
	if newest < s.Seq || version != s.Version {
		return false, fmt.Errorf("%w: of %s it has version %d at sequence %d, the log version %d at %d", ErrContradiction, s.Owner, s.Version, s.Seq, version, newest)
	}
	if !some {
		if newest, batch, err = x.newest(ctx, s.Owner, events.KindMemory); err != nil || newest > s.Seq {
			return false, err
		}
		leaves, _ = leavesAfter(batch)
	}
	if leaves != s.Leaves {
		return false, fmt.Errorf("%w: of %s it has %d leaves, the log %d", ErrContradiction, s.Owner, s.Leaves, leaves)
	}
	return true, nil
}

// newest reads the owner's newest message; its sequence is 0 where there is none.
func (x *Executor) newest(ctx context.Context, owner events.Owner, kind events.SubjectKind) (seq uint64, batch []events.Event, err error) {
	r, found, err := x.cfg.Log.OwnerNewest(ctx, events.FamilyLedger, owner, kind)
	if err != nil || !found {
		return 0, nil, err
	}
	if batch, err = events.DecodeBatch(r.Payload); err != nil {
		return 0, nil, fmt.Errorf("sequence %d: %w", r.Seq, err)
	}
	return r.Seq, batch, nil
}

// leavesAfter is how many leaves the owner has after a message, if it holds one.
func leavesAfter(batch []events.Event) (leaves uint64, some bool) {
	for i := range batch {
		if data, ok := batch[i].Data.(*events.MemoryWritten); ok {
			leaves, some = data.LeafIndex+1, true
		}
	}
	return leaves, some
}
