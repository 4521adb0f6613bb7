package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

// catchUp brings the entry's state up to the owner's newest event.
func (x *Executor) catchUp(ctx context.Context, owner events.Owner, e *entry) error {
	if e.state == nil {
		state, err := x.cfg.Loader.Load(ctx, owner)
		if err != nil {
			return fmt.Errorf("load owner: %w", err)
		}
		// If the read model knows nothing of the owner, the state comes from the log alone.
		unproven := state.Seq > 0 || state.Version != 0 || state.Leaves > 0
		e.state, e.unproven, e.keysRead = state, unproven, 0
		if state.Leaves == 0 {
			e.keysRead = x.used.add(owner) // all keys are in the tail, which is folded in
		}
	}
	// If the state includes the owner's newest message, there is no tail to read. So an owner
	// who was away costs the log server one look-up in an old block. An apparent contradiction
	// is checked again after the tail: the leader may be behind a replica for a moment.
	if err := x.prove(ctx, e); e.fresh || err != nil && !errors.Is(err, eventlog.ErrContradiction) {
		return err
	}
	err := x.cfg.Log.OwnerTail(ctx, events.FamilyLedger, owner, e.state.Seq, func(r eventlog.Record) error { return x.fold(e, r) })
	if err != nil {
		err = fmt.Errorf("read owner's tail: %w", err)
	} else {
		err = x.prove(ctx, e)
	}
	if err != nil {
		e.state = nil // load again: the read model may be newer than this state, or rebuilding
		return err
	}
	e.fresh = true
	return nil
}

// overtaken folds in the messages of writers who were faster, if there are few. The next try
// does not wait for a read of the whole tail, in which they would be faster again: if there
// is more, its append fails, too, and a refusal is checked.
func (x *Executor) overtaken(ctx context.Context, e *entry, by error) error {
	conflict, few := errors.AsType[eventlog.Conflict](by)
	if !few {
		return nil
	}
	if len(conflict.Tail) == 0 { // their message is in flight
		eventlog.Pause(ctx, 2*time.Millisecond)
	}
	for _, r := range conflict.Tail {
		if err := x.fold(e, r); err != nil {
			return err
		}
	}
	e.fresh = !e.unproven
	return nil
}

// fold decodes a message and applies it, if no message is missing before it: that one may
// have revoked what the next command is about.
func (x *Executor) fold(e *entry, r eventlog.Record) error {
	batch, err := events.DecodeBatch(r.Payload)
	if err != nil {
		return fmt.Errorf("sequence %d: %w", r.Seq, err)
	}
	if v := batch[0].OwnerVersion; v != e.state.Version+1 {
		return fmt.Errorf("%w, or the log lost a message: of %s, version %d at sequence %d follows version %d",
			eventlog.ErrContradiction, e.state.Owner, v, r.Seq, e.state.Version)
	}
	x.apply(e, r.Seq, batch)
	return nil
}

// prove compares a state that came from the read model with the log.
func (x *Executor) prove(ctx context.Context, e *entry) error {
	if !e.unproven {
		return nil
	}
	compared, err := x.confirm(ctx, e.state)
	e.unproven, e.fresh = !compared, compared
	return err
}

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
		case *events.MemoryForgotten:
			leaves, some = data.Leaves, true
		case *events.OwnerErased:
			leaves, some = data.Leaves, true
		case *events.ImportStarted:
			leaves, some = data.Leaves, true
		case *events.ImportFinished:
			leaves, some = data.Leaves, true
		}
	}
	return leaves, some
}

// Standing is an owner's status in the log.
type Standing struct {
	UserID     string
	Registered bool // the owner has signed in at least once
	Erasures   int  // how often the owner has erased everything
	// KeyMissing says that the data key may be missing: no leaf was sealed with it.
	KeyMissing bool
}

func (x *Executor) Standing(ctx context.Context, owner events.Owner) (is Standing, err error) {
	err = x.inTurn(ctx, owner, func(ctx context.Context, e *entry) error {
		e.fresh = false // another process may have written since this one read the tail
		if err := x.catchUp(ctx, owner, e); err != nil {
			return err
		}
		s := e.state
		is = Standing{s.UserID, s.UserID != "", s.Erased.Times, s.UserID == "" || s.Erased.Times > 0 && s.Erased.Leaves == s.Leaves}
		return nil
	})
	return is, err
}
