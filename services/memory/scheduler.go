package memory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"

	"golang.org/x/sync/semaphore"

	"github.com/memory-ledger/ledger/events"
)

// ErrBusy: too many requests, of the same owner or of all owners, wait for a time slot.
// Answer 503 with Retry-After.
var ErrBusy = errors.New("too many searches and lists are waiting")

// waitingOfOwner bounds the pieces of an owner that wait, and its rankings. Those of all
// owners together are bounded by eight times as many.
const waitingOfOwner = 256

// FairScheduler grants time slots for pieces of lists and searches. Waiting owners are
// served in rotation: an owner with a huge log, or with a hundred searches, gets no more
// slots than one with a small log.
type FairScheduler struct {
	count    int                 // of slots
	slots    *semaphore.Weighted // serves in order of arrival; of each owner, one piece waits for it
	pieces   Turns[events.Owner] // to wait for a slot
	rankings Turns[events.Owner] // to begin
}

// NewFairScheduler returns a scheduler with a slot for each processor, and at least two: a
// piece may wait for the database.
func NewFairScheduler() *FairScheduler { return newScheduler(max(2, runtime.NumCPU())) }

func newScheduler(slots int) *FairScheduler {
	return &FairScheduler{count: slots, slots: semaphore.NewWeighted(int64(slots))}
}

// Rank waits until fewer of the owner's rankings are under way than there are slots. A
// ranking remembers what it found in the whole log until it ends, so if all were under way at
// once, they would take much memory, and all end late. The caller calls end once, at the end
// of the ranking. Its pieces have begun then. Errors: as Take's.
func (t *FairScheduler) Rank(ctx context.Context, owner events.Owner) (end func(), err error) {
	end, _, err = t.rankings.Take(ctx, owner, t.count, t.most(false))
	return end, err
}

// Take waits for a time slot of the owner. The caller does a piece of work and calls
// release once. Work that has begun may have sent a part of its answer, so it waits no
// matter how many others do. Errors: ErrBusy if the work has not begun and too many wait,
// or, together with ctx's error, if ctx ends first.
func (t *FairScheduler) Take(ctx context.Context, owner events.Owner, begun bool) (release func(), err error) {
	leave, _, err := t.pieces.Take(ctx, owner, 1, t.most(begun))
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := t.slots.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return func() { t.slots.Release(1) }, nil
}

// most bounds the waiters. Work that has begun was admitted by the same bound.
func (t *FairScheduler) most(begun bool) int {
	switch {
	case begun:
		return math.MaxInt
	case t.pieces.Callers()+t.rankings.Callers() >= 8*waitingOfOwner:
		return 0
	}
	return waitingOfOwner
}
