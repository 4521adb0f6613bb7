package projector_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
)

// TestAKilledProjectorGoesOn kills projector processes at random positions.
func TestAKilledProjectorGoesOn(t *testing.T) {
	t.Parallel()
	url, pool := fixture.Database(t)
	server := natstest.StartProcess(t)
	log := fixture.ConnectLog(t, server.URL())
	log.Publish(t, fixture.NewHistory(12, 8).Messages(1500)...)
	head, err := log.Head(t.Context())
	must(t, err)
	chance := rand.New(rand.NewPCG(12, 12))
	kills := 0
	for before := uint64(0); before < head; {
		process := startProjectorProcess(t, url, server.URL())
		goal := min(before+1+chance.Uint64N(300), head)
		fixture.Eventually(t, time.Minute, func() error {
			at, err := projector.ReadCheckpoint(t.Context(), pool)
			if err == nil && at.Seq < goal {
				err = fmt.Errorf("at %d of %d", at.Seq, goal)
			}
			return err
		})
		must(t, process.Kill())
		kills++
		at, err := projector.ReadCheckpoint(t.Context(), pool)
		must(t, err)
		before = at.Seq
	}
	t.Logf("%d kills", kills)
	sameFromTheStart(t, url, pool, log)
}

// TestTheLogGoesAwayAndComesBack: the log server is killed, then frozen.
func TestTheLogGoesAwayAndComesBack(t *testing.T) {
	slow(t)
	t.Parallel()
	_, pool := fixture.Database(t)
	server := natstest.StartProcess(t)
	log := fixture.ConnectLog(t, server.URL())
	r, _ := project(t, pool, log)
	history := fixture.NewHistory(15, 4)
	log.Publish(t, history.Messages(100)...)
	caughtUp(t, pool, log)
	for _, outage := range []struct {
		name       string
		begin, end func()
	}{{"kill", server.Kill, server.Start}, {"freeze", server.Freeze, server.Thaw}} {
		outage.begin()
		fixture.Eventually(t, 2*time.Minute, func() error {
			if r.Ready() == nil {
				return errors.New(outage.name + ": still ready")
			}
			return nil
		})
		outage.end()
		fixture.Eventually(t, 2*time.Minute, func() error { _, err := log.Head(t.Context()); return err })
		log.Publish(t, history.Messages(100)...)
		caughtUp(t, pool, log)
		ready(t, r)
	}
}

// shrinking is a log that can report a shorter end.
type shrinking struct {
	*fixture.Log
	lost atomic.Uint64
}

func (l *shrinking) Head(ctx context.Context) (uint64, error) {
	head, err := l.Log.Head(ctx)
	return head - l.lost.Load(), err
}

// behind is a log whose leader lacks the newest message for a few answers: a replica has
// delivered that already.
type behind struct {
	*fixture.Log
	answers atomic.Int64
}

func (l *behind) Head(ctx context.Context) (uint64, error) {
	head, err := l.Log.Head(ctx)
	if l.answers.Add(-1) >= 0 {
		head--
	}
	return head, err
}

func (l *behind) Lag() time.Duration { return time.Minute }

// TestALeaderThatIsBehindIsNoShorterLog: such an error would make the anchorer drop its
// tables.
func TestALeaderThatIsBehindIsNoShorterLog(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	log := &behind{Log: fixture.NewLog(t)}
	log.Publish(t, fixture.NewHistory(53, 4).Messages(50)...)
	var failed atomic.Pointer[error]
	r, stop := project(t, pool, log, func(c *projector.Config) {
		c.Renew = func(err error) []projector.Step { failed.CompareAndSwap(nil, &err); return nil }
	})
	caughtUp(t, pool, log)
	for range 2 { // while it works, and when it starts
		log.answers.Store(3)
		fixture.Eventually(t, 2*time.Minute, func() error {
			if n := log.answers.Load(); n > 0 {
				return fmt.Errorf("%d more answers", n)
			}
			return nil
		})
		ready(t, r)
		must(t, stop())
		r, stop = project(t, pool, log)
	}
	if err := failed.Load(); err != nil {
		t.Error(*err)
	}
}

func TestALogThatShrinksUnderTheProjector(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	log := &shrinking{Log: fixture.NewLog(t)}
	log.Publish(t, fixture.NewHistory(19, 4).Messages(50)...)
	r, _ := project(t, pool, log)
	caughtUp(t, pool, log)
	log.lost.Store(1)
	refuses(t, r, projector.ErrAheadOfLog)
	log.lost.Store(0) // the head came from a server that did not know the log's end
	log.Publish(t, fixture.NewHistory(20, 4).Messages(5)...)
	caughtUp(t, pool, log)
	ready(t, r)
}

// follows is a log whose Follow is given by the test.
type follows struct {
	*fixture.Log
	follow func(context.Context, eventlog.FollowConfig, func(eventlog.Slice) error) error
}

func (l follows) Follow(ctx context.Context, cfg eventlog.FollowConfig, yield func(eventlog.Slice) error) error {
	return l.follow(ctx, cfg, yield)
}

// TestAFollowerThatSkipsMessagesIsNotBelieved: the projector requests the skipped
// messages again.
func TestAFollowerThatSkipsMessagesIsNotBelieved(t *testing.T) {
	t.Parallel()
	url, pool, log := empty(t)
	history := fixture.NewHistory(51, 4)
	log.Publish(t, history.Messages(20)...)
	var skipped atomic.Bool
	hasty := follows{log, func(ctx context.Context, cfg eventlog.FollowConfig, yield func(eventlog.Slice) error) error {
		return log.Follow(ctx, cfg, func(s eventlog.Slice) error {
			if s.First > 1 && !skipped.Swap(true) {
				return nil
			}
			return yield(s)
		})
	}}
	r, _ := project(t, pool, hasty, func(c *projector.Config) { c.SliceRecords = 4 })
	caughtUp(t, pool, log)
	ready(t, r)
	sameFromTheStart(t, url, pool, log)
}

// TestACheckpointBeyondTheLogIsRefused: another log has replaced the log of these read
// models.
func TestACheckpointBeyondTheLogIsRefused(t *testing.T) {
	t.Parallel()
	url, pool, log := empty(t)
	_, stop := project(t, pool, log)
	log.Publish(t, fixture.NewHistory(16, 4).Messages(50)...)
	caughtUp(t, pool, log)
	must(t, stop())
	before := fixture.Dump(t, pool, readmodel.All()...)
	other := fixture.NewLog(t)
	other.Publish(t, fixture.NewHistory(17, 4).Messages(49)...)
	r, _ := project(t, pool, other)
	refuses(t, r, projector.ErrAheadOfLog)
	t.Log(r.Ready())
	// A replacement log that is long enough is detected too.
	other.Publish(t, fixture.NewHistory(18, 4).Messages(10)...)
	refuses(t, r, projector.ErrOtherLog)
	t.Log(r.Ready())
	if difference := fixture.Difference(before, fixture.Dump(t, pool, readmodel.All()...)); difference != "" {
		t.Error(difference)
	}
	// Without the tables the projector goes on, and makes them from the current log.
	sql(t, pool, `DROP SCHEMA ledger CASCADE`)
	caughtUp(t, pool, other)
	ready(t, r)
	sameFromTheStart(t, url, pool, other)
}

// TestTablesThatWereTakenAwayAreMadeAgain: the active projector makes missing tables
// again. Its fence detects that the tables are other ones.
func TestTablesThatWereTakenAwayAreMadeAgain(t *testing.T) {
	t.Parallel()
	url, pool, log := empty(t)
	history := fixture.NewHistory(52, 4)
	r, _ := project(t, pool, log)
	for _, emptied := range []string{`SELECT 1`, `DROP SCHEMA ledger CASCADE`, `DROP OWNED BY CURRENT_USER CASCADE`} {
		log.Publish(t, history.Messages(20)...)
		caughtUp(t, pool, log)
		sql(t, pool, emptied)
		caughtUp(t, pool, log)
		ready(t, r)
	}
	sameFromTheStart(t, url, pool, log)
}

// written is a log in memory. It delivers one message at a time, regardless of the
// reader's state, and notes where reads begin.
type written struct {
	records []eventlog.Record
	from    []uint64
	last    func() // called before the last message is handed over, if set
}

func (l *written) Read(_ context.Context, cfg eventlog.ReadConfig, yield func(eventlog.Slice) error) error {
	l.from = append(l.from, cfg.From)
	for i := range l.records {
		r := l.records[i]
		if r.Seq < cfg.From || r.Seq > cfg.To {
			continue
		}
		if r.Seq == cfg.To && l.last != nil {
			l.last()
		}
		if err := yield(eventlog.Slice{First: r.Seq, Last: r.Seq, Records: l.records[i : i+1]}); err != nil {
			return err
		}
	}
	return nil
}

func recorded(t *testing.T, messages ...fixture.Message) *written {
	t.Helper()
	l := new(written)
	for i, m := range messages {
		l.records = append(l.records, eventlog.Record{Seq: uint64(i + 1), Subject: m.Subject(), Time: time.Unix(int64(i+1), 0), Payload: m.Payload(t)})
	}
	return l
}

// replayed makes a replayer of the given projections.
func replayed(t *testing.T, pool *pgxpool.Pool, log eventlog.PartReader, projections ...projector.Projection) *projector.Replayer {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	must(t, err)
	t.Cleanup(conn.Release)
	r, err := projector.NewReplayer(t.Context(), conn.Conn(), log, projections)
	must(t, err)
	return r
}

// TestAReplaySaysWhatStoppedIt: the error of a replay is the original error, not one of
// the stages that it stopped, and names the messages. No message is skipped.
func TestAReplaySaysWhatStoppedIt(t *testing.T) {
	t.Parallel()
	badDay := errors.New("a bad day")
	for name, c := range map[string]struct {
		change func(*written, *fixture.Actor)
		apply  error
		reason string
	}{
		"it can't be read":    {func(l *written, _ *fixture.Actor) { l.records[3].Payload = []byte("\x00{") }, nil, "replay: sequence 4: "},
		"it can't be applied": {func(*written, *fixture.Actor) {}, badDay, "replay sequences 1 to 4: projection troubled: a bad day"},
		"it can't be written": {func(l *written, _ *fixture.Actor) { l.records[3].Payload = l.records[2].Payload }, nil, "replay sequences 1 to 4: "},
		"no row can be made of it": {func(l *written, a *fixture.Actor) {
			m := a.Memory(`{}`)
			m.LeafIndex, m.MemoryID = 3, "none"
			l.records[3].Payload = a.Say(m).Payload(t)
		}, nil, "the memory id is not a UUID"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, pool := fixture.Database(t)
			a := fixture.NewActor()
			log := recorded(t, a.Write(`{}`), a.Write(`{}`), a.Write(`{}`), a.Write(`{}`))
			c.change(log, a)
			r := replayed(t, pool, log, append(readmodel.All(),
				troubled{func(context.Context, *projector.Writer, projector.Slice) error { return c.apply }})...)
			err := r.To(t.Context(), 4)
			if err == nil || !strings.Contains(err.Error(), c.reason) || c.apply != nil && !errors.Is(err, c.apply) {
				t.Errorf("it says %v", err)
			}
			if is, err := projector.ReadCheckpoint(t.Context(), pool); err != nil || is.Seq != 0 || r.At() != 0 {
				t.Errorf("it is at %d, %d, %v", is.Seq, r.At(), err)
			}
		})
	}
}

// TestAReplayEndsThoughItsPartsWaitForEachOther: if one slice can't be applied, the slices
// behind it would wait forever for their turn.
func TestAReplayEndsThoughItsPartsWaitForEachOther(t *testing.T) {
	t.Parallel()
	badDay := errors.New("a bad day")
	a := fixture.NewActor()
	long := bytes.Repeat([]byte("sealed \x00"), 1_050_000) // one of them is a slice
	var messages []fixture.Message
	for range 4 {
		m := a.Memory(`{}`)
		m.Sealed = long
		messages = append(messages, a.Say(m))
	}
	_, pool := fixture.Database(t)
	log := recorded(t, messages...)
	read := make(chan struct{})
	log.last = sync.OnceFunc(func() { close(read) })
	entered := make(chan struct{}, 1)
	release := make(chan struct{})
	r := replayed(t, pool, log, memories.Projection{}, troubled{func(context.Context, *projector.Writer, projector.Slice) error {
		entered <- struct{}{}
		<-release
		return badDay
	}})
	ended := make(chan error, 1)
	// One slice is applied, one waits behind it, and one is read.
	go func() { ended <- r.To(t.Context(), 3) }()
	<-entered
	<-read
	close(release)
	select {
	case err := <-ended:
		if !errors.Is(err, badDay) {
			t.Errorf("it says %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it does not end")
	}
}

// TestRowsDoNotDependOnTheCut: the same log makes the same rows message by message, in
// slices of any length, and as one slice.
func TestRowsDoNotDependOnTheCut(t *testing.T) {
	slow(t)
	t.Parallel()
	const length = 1500
	url := pgtest.Database(t)
	for seed := range uint64(3) {
		messages := fixture.NewHistory(seed, 5).Messages(length)
		chance := rand.New(rand.NewPCG(seed, 1))
		var want []string
		for name, longest := range map[string]int{"single": 1, "short": 12, "long": 400, "whole": length} {
			pool := fixture.Pool(t, url, name+string(rune('a'+seed)))
			for at := 0; at < length; {
				n := longest
				if longest > 1 && longest < length {
					n = 1 + chance.IntN(longest)
				}
				n = min(n, length-at)
				fixture.Apply(t, pool, fixture.Slice(uint64(at+1), messages[at:at+n]...), readmodel.All()...)
				at += n
			}
			got := fixture.Dump(t, pool, readmodel.All()...)
			if want == nil {
				want = got
			}
			if difference := fixture.Difference(want, got); difference != "" {
				t.Errorf("seed %d, %s: %s", seed, name, difference)
			}
		}
		if len(want) < length/3 {
			t.Errorf("only %d rows came of %d messages", len(want), length)
		}
	}
}
