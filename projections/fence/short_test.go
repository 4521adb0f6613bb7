package fence_test

import (
	"errors"
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

// Before the first append, and after a lost connection, CheckLog asks whether the log
// fits. In between it relies on the listener, which checks from time to time. The
// database may be unreachable by then.
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
	pool.Close() // the fence has its own connection, and checks again in an hour
	check("without the database", true)
	log.end(7)
	check("once it is as long", false)
}

// TestALeaderMayBeBehindItsReplicas: a log of several replicas may show a message before
// its leader has it.
func TestALeaderMayBeBehindItsReplicas(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	advance(t, pool, 0, 7)
	log := &heads{head: 6}
	f := newFence(t, pool, log, func(o *fence.Options) { o.Lag = time.Minute })
	waiting := make(chan error, 1)
	go func() { waiting <- f.CheckLog(t.Context()) }()
	fixture.Eventually(t, 2*time.Minute, func() error {
		if log.asked() < 3 {
			return errors.New("asked less than thrice")
		}
		return nil
	})
	log.end(7)
	if err := <-waiting; err != nil {
		t.Error(err)
	}
	log.end(6)
	f = newFence(t, pool, log, func(o *fence.Options) { o.Lag = 10 * time.Millisecond })
	if err := f.CheckLog(t.Context()); !errors.Is(err, fence.ErrLogShort) {
		t.Errorf("one that stays shorter: %v", err)
	}
}
