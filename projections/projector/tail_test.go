package projector_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
)

// undated reports slices whose last record has no time.
type undated struct {
	eventlog.Log
	seen chan<- struct{}
}

func (u undated) Follow(ctx context.Context, cfg eventlog.FollowConfig, yield func(eventlog.Slice) error) error {
	return u.Log.Follow(ctx, cfg, func(s eventlog.Slice) error {
		if s.Records[len(s.Records)-1].Time.IsZero() {
			select {
			case u.seen <- struct{}{}:
			default:
			}
		}
		return yield(s)
	})
}

// TestProjectingTheTail: messages that arrive from memory instead of the log make the
// same rows, and leave a checkpoint that identifies the log.
func TestProjectingTheTail(t *testing.T) {
	t.Parallel()
	url, pool, log := empty(t)
	tailed := eventlog.WithRecentAppends(log.Log)
	seen := make(chan struct{}, 50)
	_, stop := project(t, pool, undated{tailed, seen})
	writing, end := context.WithCancel(t.Context())
	defer end()
	var writers sync.WaitGroup
	for range 4 {
		a := fixture.NewActor()
		writers.Go(func() {
			for writing.Err() == nil {
				a.AppendMemory(t, tailed, `{}`)
			}
		})
	}
	deadline := time.After(time.Minute)
	for range cap(seen) {
		select {
		case <-seen:
		case <-deadline:
			t.Fatal("the tail is not used")
		}
	}
	end()
	writers.Wait()
	caughtUp(t, pool, log)
	var position uint64
	var stored time.Time
	if err := pool.QueryRow(t.Context(), `SELECT seq, stored_at FROM checkpoint`).Scan(&position, &stored); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	found := false
	done := context.Canceled
	err := log.Follow(t.Context(), eventlog.FollowConfig{From: position}, func(s eventlog.Slice) error {
		found = s.Records[0].Time.Sub(stored).Abs() <= time.Microsecond
		return done
	})
	if !found {
		t.Errorf("the checkpoint at %d is of %s: %v", position, stored, err)
	}
	sameFromTheStart(t, url, pool, log)
	// The next projector recognizes the log by the checkpoint.
	r, _ := project(t, pool, log)
	ready(t, r)
}
