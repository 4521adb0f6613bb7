package projector_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
)

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
