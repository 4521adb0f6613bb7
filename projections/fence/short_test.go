package fence_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
)

func (h *heads) end(at uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.head = at
}

// Before an append, the log is asked whether it fits: at first, and after the connection
// was lost. In between, the append relies on the listener, which looks from time to time.
// The database may be away by then.
func TestWhoeverAppendsAsksWhetherTheLogFits(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	advance(t, pool, 0, 7)
	log := &heads{head: 6}
	var connection atomic.Uint64
	connection.Store(1)
	f := newFence(t, pool, log, func(o *fence.Options) { o.Connection, o.Poll = connection.Load, time.Hour })
	check := func(when string, short bool) {
		t.Helper()
		if err := f.CheckLog(t.Context()); errors.Is(err, fence.ErrLogShort) != short || err != nil != short {
			t.Errorf("%s: %v", when, err)
		}
	}
	check("at first, one that is older", true)
	log.end(7)
	check("at first", false)
	fixture.Running(t, f.Run)
	knows(t, f, 7)
	log.end(6)
	check("by the same connection", false)
	connection.Add(1)
	check("by another connection", true)
	pool.Close() // the fence has a connection of its own, and looks in an hour
	check("without the database", true)
	log.end(7)
	check("once it is as long", false)
}

// TestTheListenerFindsAnOlderLog that is put in place behind a connection that stands.
func TestTheListenerFindsAnOlderLog(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	advance(t, pool, 0, 7)
	log := &heads{head: 7}
	f := newFence(t, pool, log, func(o *fence.Options) { o.Poll = 10 * time.Millisecond })
	fixture.Running(t, f.Run)
	knows(t, f, 7)
	if err := f.CheckLog(t.Context()); err != nil {
		t.Fatal(err)
	}
	log.end(6)
	fixture.Eventually(t, 20*time.Second, func() error {
		if err := f.CheckLog(t.Context()); !errors.Is(err, fence.ErrLogShort) {
			return errors.Join(errors.New("not refused"), err)
		}
		return nil
	})
}

// looked is a log that tells of each question.
type looked struct {
	heads
	times chan struct{}
}

func (l *looked) Head(ctx context.Context) (uint64, error) {
	select {
	case l.times <- struct{}{}:
	default:
	}
	return l.heads.Head(ctx)
}

// TestReadsAreSaidToBeAnsweredOnceTheyAre: not when the read models are others that fit
// the log, but once these hold it.
func TestReadsAreSaidToBeAnsweredOnceTheyAre(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	advance(t, pool, 0, 7)
	var lines syncBuffer
	log := &looked{heads: heads{head: 5}, times: make(chan struct{})}
	f := newFence(t, pool, log, func(o *fence.Options) {
		o.Poll, o.Logger = 10*time.Millisecond, slog.New(slog.NewTextHandler(&lines, nil))
	})
	fixture.Running(t, f.Run)
	said := func(what string) func() error {
		return func() error {
			if !strings.Contains(lines.String(), what) {
				return errors.New("it does not say: " + what)
			}
			return nil
		}
	}
	fixture.Eventually(t, 20*time.Second, said("refused"))
	if _, err := pool.Exec(t.Context(), `UPDATE checkpoint SET generation = gen_random_uuid(), seq = 3`); err != nil {
		t.Fatal(err)
	}
	knows(t, f, 3)
	for range 4 { // looks, each of which may have begun before that
		<-log.times
	}
	if said("again")() == nil {
		t.Error("reads are said to be answered while they wait")
	}
	advance(t, pool, 3, 5)
	fixture.Eventually(t, 20*time.Second, said("again"))
	if err := f.WaitAll(t.Context()); err != nil {
		t.Error(err)
	}
}
