package projector

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/schema"
)

// asked is an empty log that answers only when the test lets it.
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

// A session ends only after its watch has ended: then its connection is closed, and no
// other goroutine may use it. If the watch is reading the log's head at that moment, the
// session waits for the answer.
func TestNobodyWatchesASessionThatIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := asked{question: make(chan struct{}), answer: make(chan struct{})}
		r := &Runner{cfg: Config{Schema: schema.Live, Tables: migrations{}, Log: log, Logger: slog.New(slog.DiscardHandler)}}
		r.cfg.setDefaults()
		s := &session{runner: r, caughtUp: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		begun := time.Now()
		go func() { ended <- s.run(ctx, 1) }()
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

// lifelong is a context that never ends, and counts its registered AfterFuncs.
type lifelong struct {
	context.Context
	kept int
}

func (*lifelong) Done() <-chan struct{} { return make(chan struct{}) }

func (c *lifelong) AfterFunc(func()) (stop func() bool) {
	c.kept++
	return func() bool { c.kept--; return true }
}

// TestASessionKeepsNothingOfItsSlices: a session may last for months.
func TestASessionKeepsNothingOfItsSlices(t *testing.T) {
	t.Parallel()
	r := &Runner{cfg: Config{ApplyTimeout: time.Minute}}
	ctx := &lifelong{Context: t.Context()}
	apply := r.limit(func(*message.Message) ([]*message.Message, error) { return nil, nil })
	if _, err := apply(message.NewMessageWithContext(ctx, "1 to 5", nil)); err != nil || ctx.kept != 0 {
		t.Errorf("%d are kept, %v", ctx.kept, err)
	}
}
