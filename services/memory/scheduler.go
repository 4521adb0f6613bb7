package memory

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/memory-ledger/ledger/events"
)

// ErrBusy: too many requests, of the same owner or of all owners, wait for a time slot.
// Answer 503 with Retry-After.
var ErrBusy = errors.New("too many searches and lists are waiting")

// waitingOfOwner bounds the pieces of an owner that wait. Those of all owners are bounded
// by eight times as many.
const waitingOfOwner = 256

// FairScheduler grants time slots for pieces of lists and searches. Waiting owners are
// served in rotation: an owner with a huge log, or with a hundred searches, gets no more
// slots than one with a small log.
type FairScheduler struct {
	mu      sync.Mutex
	free    int
	waiting int
	lines   map[events.Owner][]chan struct{} // closed when the slot is granted; in order of arrival
	turns   []events.Owner                   // who wait, the next one first
}

// NewFairScheduler returns a scheduler with a slot for each processor, and at least two: a
// piece may wait for the database.
func NewFairScheduler() *FairScheduler { return newScheduler(max(2, runtime.NumCPU())) }

func newScheduler(slots int) *FairScheduler {
	return &FairScheduler{free: slots, lines: map[events.Owner][]chan struct{}{}}
}

// Take waits for a time slot of the owner. The caller does a piece of work and calls
// release once. Work that has begun may have sent a part of its answer, so it waits no
// matter how many others do. Errors: ErrBusy if the work has not begun and too many wait,
// or, together with ctx's error, if ctx ends first.
func (t *FairScheduler) Take(ctx context.Context, owner events.Owner, begun bool) (release func(), err error) {
	t.mu.Lock()
	if t.free > 0 && t.waiting == 0 {
		t.free--
		t.mu.Unlock()
		return t.release, nil
	}
	mine := make(chan struct{})
	if err := t.enqueue(owner, mine, begun); err != nil {
		t.mu.Unlock()
		return nil, err
	}
	t.mu.Unlock()
	select {
	case <-mine:
		return t.release, nil
	case <-ctx.Done():
		t.leave(owner, mine)
		return nil, fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
	}
}

// enqueue bounds the waiters. Work that has begun was admitted by the same bound.
func (t *FairScheduler) enqueue(owner events.Owner, mine chan struct{}, begun bool) error {
	line := t.lines[owner]
	if !begun && (t.waiting >= 8*waitingOfOwner || len(line) >= waitingOfOwner) {
		return ErrBusy
	}
	if line == nil {
		t.turns = append(t.turns, owner)
	}
	t.lines[owner] = append(line, mine)
	t.waiting++
	return nil
}

// release grants the slot to the first waiter of the next owner, and moves that owner to
// the end of the rotation.
func (t *FairScheduler) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.turns) == 0 {
		t.free++
		return
	}
	owner := t.turns[0]
	close(t.lines[owner][0])
	if t.remove(owner, 0); len(t.lines[owner]) > 0 {
		t.turns = append(slices.Delete(t.turns, 0, 1), owner)
	}
}

// remove removes a waiter, and the owner after the last waiter.
func (t *FairScheduler) remove(owner events.Owner, i int) {
	t.waiting--
	if t.lines[owner] = slices.Delete(t.lines[owner], i, i+1); len(t.lines[owner]) == 0 {
		delete(t.lines, owner)
		t.turns = slices.DeleteFunc(t.turns, func(o events.Owner) bool { return o == owner })
	}
}

// leave removes a waiter, or releases its slot if it was granted at the same moment.
func (t *FairScheduler) leave(owner events.Owner, mine chan struct{}) {
	t.mu.Lock()
	i := slices.Index(t.lines[owner], mine)
	if i >= 0 {
		t.remove(owner, i)
	}
	t.mu.Unlock()
	if i < 0 {
		t.release()
	}
}
