package projector_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
)

// withholding is a log that delivers messages without their store time, and can refuse to
// give the time on request.
type withholding struct {
	timeless
	fallen atomic.Bool
}

func (l *withholding) At(ctx context.Context, seq uint64) (eventlog.Record, bool, error) {
	if l.fallen.Load() {
		return eventlog.Record{}, false, fmt.Errorf("down: %w", eventlog.ErrUnavailable)
	}
	return l.timeless.At(ctx, seq)
}

// TestALogThatDoesNotSayWhenIsWaitedFor: without the time of the message at the
// checkpoint, the projector can't tell whether the rows came from this log. Without the
// time of a new message, it could not tell that later. The log is reported as
// unavailable, not as another log, and the projector continues once the log gives the
// time.
func TestALogThatDoesNotSayWhenIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]int{"of the message at the checkpoint": 5, "of a new one": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, pool := fixture.Database(t)
			log := &withholding{timeless: timeless{fixture.NewLog(t)}}
			history := fixture.NewHistory(53, 3)
			if before > 0 {
				log.Publish(t, history.Messages(before)...)
				_, stop := project(t, pool, log)
				caughtUp(t, pool, log)
				if err := stop(); err != nil {
					t.Fatal(err)
				}
			} else {
				log.Publish(t, history.Messages(1)...)
			}
			was := at(t, pool, func(projector.Vector) bool { return true })
			log.fallen.Store(true)
			r, _ := project(t, pool, log)
			refuses(t, r, eventlog.ErrUnavailable)
			if is := at(t, pool, func(projector.Vector) bool { return true }); !is.Equal(was) {
				t.Errorf("it went on from %s to %s", was, is)
			}
			log.fallen.Store(false)
			ready(t, r)
			log.Publish(t, history.Messages(5)...)
			caughtUp(t, pool, log)
			for _, m := range at(t, pool, func(projector.Vector) bool { return true }) {
				if m.Stored.IsZero() {
					t.Errorf("when the message at %d was stored is not known", m.Seq)
				}
			}
			sameFromTheStart(t, url, pool, log.Log)
			inState(t, r, projector.Live)
		})
	}
}
