package runner

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/position"
)

// asked is a log without messages that takes its time to say so.
type asked struct {
	eventlog.Reader
	question, answer chan struct{}
}

func (l asked) Head(context.Context) (uint64, error) {
	l.question <- struct{}{}
	<-l.answer
	return 0, errors.New("too late")
}

func (asked) Follow(ctx context.Context, _ eventlog.FollowConfig, _ func(eventlog.Slice) error) error {
	<-ctx.Done()
	return nil
}

// TestNobodyWatchesASessionThatIsOver: its connection is closed then, and may be used by
// nobody else meanwhile. Who asks the log at that moment is waited for.
func TestNobodyWatchesASessionThatIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := asked{question: make(chan struct{}), answer: make(chan struct{})}
		r := &Runner{cfg: Config{Log: log, Logger: slog.New(slog.DiscardHandler)}}
		r.cfg.setDefaults()
		s := &session{runner: r, at: position.Checkpoint{Vector: position.All(0)}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		begun := time.Now()
		go func() { ended <- s.project(ctx, 1) }()
		<-log.question
		if took := time.Since(begun); took != watchInterval {
			t.Errorf("the log is asked for its end after %s", took)
		}
		cancel()
		synctest.Wait()
		if len(ended) > 0 {
			t.Error("the session is over, and somebody still watches it")
		}
		close(log.answer)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
