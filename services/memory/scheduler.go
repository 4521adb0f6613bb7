package memory

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sync/semaphore"

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
	slots *semaphore.Weighted // serves in order of arrival; of each owner, one piece waits for it

	mu      sync.Mutex
	waiting int
	lines   map[events.Owner]*line // of owners who wait
}

// line is where the pieces of an owner wait for their turn to wait for a slot.
type line struct {
	turn    *semaphore.Weighted
	waiting int
}

// NewFairScheduler returns a scheduler with a slot for each processor, and at least two: a
// piece may wait for the database.
func NewFairScheduler() *FairScheduler { return newScheduler(max(2, runtime.NumCPU())) }

func newScheduler(slots int) *FairScheduler {
	return &FairScheduler{slots: semaphore.NewWeighted(int64(slots)), lines: map[events.Owner]*line{}}
}

// Take waits for a time slot of the owner. The caller does a piece of work and calls
// release once. Work that has begun may have sent a part of its answer, so it waits no
// matter how many others do. Errors: ErrBusy if the work has not begun and too many wait,
// or, together with ctx's error, if ctx ends first.
func (t *FairScheduler) Take(ctx context.Context, owner events.Owner, begun bool) (release func(), err error) {
	mine, err := t.join(owner, begun)
	if err != nil {
		return nil, err
	}
	defer t.leave(owner, mine)
	if err := mine.turn.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBusy, err)
	}
	defer mine.turn.Release(1)
	if err := t.slots.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return func() { t.slots.Release(1) }, nil
}

// join bounds the waiters. Work that has begun was admitted by the same bound.
func (t *FairScheduler) join(owner events.Owner, begun bool) (*line, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.lines[owner]
	if mine == nil {
		mine = &line{turn: semaphore.NewWeighted(1)}
	}
	if !begun && (t.waiting >= 8*waitingOfOwner || mine.waiting >= waitingOfOwner) {
		return nil, ErrBusy
	}
	t.lines[owner] = mine
	mine.waiting++
	t.waiting++
	return mine, nil
}

func (t *FairScheduler) leave(owner events.Owner, mine *line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting--
	if mine.waiting--; mine.waiting == 0 {
		delete(t.lines, owner)
	}
}
