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

// waitingOfOwner bounds the pieces and rankings of an owner that wait. Those of all owners are
// bounded by eight times as many.
const waitingOfOwner = 256

// FairScheduler grants time slots for pieces of lists and searches. Waiting owners are
// served in rotation: an owner with a huge log, or with a hundred searches, gets no more
// slots than one with a small log.
type FairScheduler struct {
	count int64               // of slots
	slots *semaphore.Weighted // serves in order of arrival; of each owner, one piece waits for it

	mu      sync.Mutex
	waiting int
	lines   map[events.Owner]*line // of owners who wait
}

// line is where the pieces of an owner wait for their turn to wait for a slot, and where
// whole rankings wait to begin.
type line struct {
	turn, rankings *semaphore.Weighted
	waiting        int // with the rankings that have begun
}

// NewFairScheduler returns a scheduler with a slot for each processor, and at least two: a
// piece may wait for the database.
func NewFairScheduler() *FairScheduler { return newScheduler(max(2, runtime.NumCPU())) }

func newScheduler(slots int) *FairScheduler {
	count := int64(slots)
	return &FairScheduler{count: count, slots: semaphore.NewWeighted(count), lines: map[events.Owner]*line{}}
}

// Rank waits until fewer of the owner's rankings are under way than there are slots. A
// ranking remembers what it found in the whole log until it ends, so if all were under way at
// once, they would take much memory, and all end late. The caller calls release once, at the
// end of the ranking. Its pieces have begun then. Errors: as Take's.
func (t *FairScheduler) Rank(ctx context.Context, owner events.Owner) (release func(), err error) {
	mine, err := t.join(owner, false)
	if err != nil {
		return nil, err
	}
	if err := mine.rankings.Acquire(ctx, 1); err != nil {
		t.leave(owner, mine)
		return nil, fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return func() {
		mine.rankings.Release(1)
		t.leave(owner, mine)
	}, nil
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
		mine = &line{turn: semaphore.NewWeighted(1), rankings: semaphore.NewWeighted(t.count)}
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
