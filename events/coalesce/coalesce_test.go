package coalesce_test

import (
	"context"
	"errors"
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

func TestWhoeverComesDuringAQuestionSharesTheNext(t *testing.T) {
	t.Parallel()
	began, proceed := make(chan struct{}), make(chan error)
	s := coalesce.Calls[int]{Fetch: func(ctx context.Context) (int, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("one that is never answered holds up all who come later")
		}
		began <- struct{}{}
		return 0, <-proceed
	}}
	first := make(chan error, 1)
	go func() { _, err := s.Get(t.Context()); first <- err }()
	<-began
	// These callers arrive during the first fetch.
	later := make(chan error, 3)
	var arrived sync.WaitGroup
	for range cap(later) {
		arrived.Go(func() { _, err := s.Get(t.Context()); later <- err })
	}
	left, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Get(left); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left: %v", err)
	}
	failure := errors.New("no")
	proceed <- failure
	if err := <-first; !errors.Is(err, failure) {
		t.Errorf("the first: %v", err)
	}
	for answered := 0; answered < cap(later); {
		select {
		case <-began:
			proceed <- nil
		case err := <-later:
			if answered++; err != nil {
				t.Errorf("a later one: %v", err)
			}
		}
	}
	arrived.Wait()
}
