package coalesce_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/memory-ledger/ledger/events/coalesce"
)

// TestAnAnswerIsNeverOlderThanTheQuestion: callers share fetches, but no caller gets the
// result of a fetch that started before the caller arrived.
func TestAnAnswerIsNeverOlderThanTheQuestion(t *testing.T) {
	t.Parallel()
	var world, asked atomic.Int64
	s := coalesce.Calls[int64]{Fetch: func(context.Context) (int64, error) {
		asked.Add(1)
		return world.Load(), nil
	}}
	const callers, rounds = 16, 500
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range rounds {
				now := world.Add(1)
				if got, err := s.Get(t.Context()); err != nil || got < now {
					t.Errorf("asked at %d, answered %d, %v", now, got, err)
				}
			}
		})
	}
	all.Wait()
	if n := asked.Load(); n > callers*rounds {
		t.Errorf("%d questions for %d callers", n, callers*rounds)
	}
}
