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

// tracker holds the newest position that this process knows.
type tracker struct {
	mu      sync.Mutex
	at      projector.Checkpoint
	tables  atomic.Uint64 // see Head
	live    bool          // the listener is connected, so at can be trusted
	changed chan struct{} // closed by the next change; nil while no caller waits
}

// await reports that a sequence is projected, or returns a channel that is closed when the
// position changes. While the listener is down it returns neither.
func (t *tracker) await(seq uint64) (changed <-chan struct{}, reached bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.live || t.at.Seq >= seq {
		return nil, t.live
	}
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed, false
}

// wake wakes all who wait: they look again.
func (t *tracker) wake() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
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
