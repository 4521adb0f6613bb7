package fence

import (
	"sync"
	"sync/atomic"

	"github.com/memory-ledger/ledger/projections/projector"
)

// announcement is the projector's message that it moved the checkpoint.
type announcement struct {
	generation string
	seq        uint64
}

// tracker holds the newest position that this process knows, and the callers that wait
// for more.
type tracker struct {
	mu      sync.Mutex
	at      projector.Checkpoint
	tables  atomic.Uint64 // see Head
	live    bool          // the listener is connected, so at can be trusted
	waiting map[*waiter]struct{}
}

// waiter waits until a sequence is projected. Its channel is closed when it is, or when
// the tracker no longer knows the position.
type waiter struct {
	seq  uint64
	wake chan struct{}
}

// await reports that a sequence is projected, or returns a waiter for it. While the
// listener is down it returns neither.
func (t *tracker) await(seq uint64) (w *waiter, reached bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.live:
		return nil, false
	case t.at.Seq >= seq:
		return nil, true
	case t.waiting == nil:
		t.waiting = make(map[*waiter]struct{})
	}
	w = &waiter{seq: seq, wake: make(chan struct{})}
	t.waiting[w] = struct{}{}
	return w, false
}

// forget removes a waiter that no longer waits.
func (t *tracker) forget(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waiting, w)
}

// wake wakes the waiters whose sequence is projected. If the listener is down, it wakes all:
// each then reads the checkpoint itself.
func (t *tracker) wake() {
	for w := range t.waiting {
		if !t.live || t.at.Seq >= w.seq {
			close(w.wake)
			delete(t.waiting, w)
		}
	}
}

// reached reports whether seq is known to be projected.
func (t *tracker) reached(seq uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live && t.at.Seq >= seq
}

// compare reports whether a checkpoint that the listener read belongs to other tables
// than the known one, and whether it is a step back.
func (t *tracker) compare(c projector.Checkpoint) (exchanged, back bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at.Generation == "" {
		return false, false
	}
	back = c.Seq < t.at.Seq
	return back || c.Generation != t.at.Generation, back
}

// set stores a checkpoint that the listener read. exchanged is compare's result for it.
func (t *tracker) set(c projector.Checkpoint, exchanged bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if exchanged {
		t.tables.Add(1)
	}
	t.at, t.live = c, true
	t.wake()
}

// advance stores an announcement. It returns false if the announcement does not continue
// the known position: another generation, or a step back. Then the tracker stays as it
// is, and the listener reads the checkpoint.
func (t *tracker) advance(a announcement) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.live || a.generation != t.at.Generation || a.seq < t.at.Seq {
		return false
	}
	t.at.Seq = a.seq
	t.wake()
	return true
}

// lost notes that the listener is down.
func (t *tracker) lost() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live = false
	t.wake()
}

// position returns the newest sequence that is known to be projected, and whether the
// listener is connected. The position is 0 before the listener first connected.
func (t *tracker) position() (seq uint64, live bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at.Seq, t.live
}
