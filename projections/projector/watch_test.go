package projector

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/schema"
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

// A session ends only after its watch has ended: its connection is closed then, and no
// other goroutine may be using it. If the watch is asking the log at that moment, the
// session waits for it.
func TestNobodyWatchesASessionThatIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := asked{question: make(chan struct{}), answer: make(chan struct{})}
		r := &Runner{cfg: Config{Schema: schema.Live, Tables: migrations{}, Log: log, Logger: slog.New(slog.DiscardHandler)}}
		r.cfg.setDefaults()
		s := &session{runner: r, caughtUp: make(chan struct{}), at: Checkpoint{Vector: AllAt(0)}}
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

// forgetful is a projection that fails at its first slice, and would not at others.
type forgetful struct {
	applied int
	fail    func() error
}

func (*forgetful) Name() string     { return "forgetful" }
func (*forgetful) Tables() []string { return nil }
func (f *forgetful) Apply(context.Context, *Writer, Slice) error {
	if f.applied++; f.applied == 1 {
		return f.fail()
	}
	return nil
}

// TestASliceThatFailedIsAnotherSessions: what projections remember of it was never
// written, whatever it failed of.
func TestASliceThatFailedIsAnotherSessions(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("a bad day") },
		"panic": func() error { panic("a bad day") },
	} {
		r, err := New(Config{Schema: schema.Live, Tables: migrations{}, Pool: new(pgxpool.Pool), Log: asked{}, Projections: []Projection{new(forgetful)}})
		if err != nil {
			t.Fatal(err)
		}
		p := &forgetful{fail: fail}
		_, end := context.WithCancelCause(t.Context())
		s := &session{runner: r, projections: []Projection{p}, end: end, at: Checkpoint{Vector: AllAt(0)}}
		slice := sized{Slice: Slice{First: 1, Last: 1, Stored: time.Unix(1, 0), Records: make([]Record, 1)}}
		ctx := context.WithValue(t.Context(), sliceKey{}, slice)
		first := s.handle(message.NewMessageWithContext(ctx, "1-1", nil))
		again := s.handle(message.NewMessageWithContext(ctx, "1-1", nil))
		if first == nil || !errors.Is(again, first) || p.applied != 1 {
			t.Errorf("%s: %v, then %v; applied %d times", name, first, again, p.applied)
		}
	}
}

// lifelong is a context that does not end, and counts what is to be done should it.
type lifelong struct {
	context.Context
	kept int
}

func (*lifelong) Done() <-chan struct{} { return make(chan struct{}) }

func (c *lifelong) AfterFunc(func()) (stop func() bool) {
	c.kept++
	return func() bool { c.kept--; return true }
}

// TestASessionKeepsNothingOfItsSlices: it may last for months.
func TestASessionKeepsNothingOfItsSlices(t *testing.T) {
	t.Parallel()
	r, err := New(Config{Schema: schema.Live, Tables: migrations{}, Pool: new(pgxpool.Pool), Log: asked{}, Projections: []Projection{new(forgetful)}})
	if err != nil {
		t.Fatal(err)
	}
	s := &session{runner: r, read: 5}
	known := sized{Slice: Slice{First: 1, Last: 5}}
	ctx := &lifelong{Context: context.WithoutCancel(context.WithValue(t.Context(), sliceKey{}, known))}
	if err := s.handle(message.NewMessageWithContext(ctx, "1-5", nil)); err != nil || ctx.kept != 0 {
		t.Errorf("%d are kept, %v", ctx.kept, err)
	}
}
