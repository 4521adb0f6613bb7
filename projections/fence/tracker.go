package fence

import (
	"sync"
	"sync/atomic"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/projector"
)

// everybody stands for all partitions.
const everybody = -1

// goal is the target of a wait: that a sequence is projected in one partition, or in all.
type goal struct {
	partition int // or everybody
	seq       uint64
}

// reach returns how far v is in the goal's partition, or in all.
func (g goal) reach(v projector.Vector) uint64 {
	if g.partition == everybody {
		return v.Lowest()
	}
	return v.At(g.partition)
}

// announcement is a projector's message about a row of the checkpoint.
type announcement struct {
	generation string
	events.Partitions
	seq uint64
}

// tracker holds the newest position that this process knows, and the callers that wait
// for more.
type tracker struct {
	mu      sync.Mutex
	at      projector.Checkpoint // the tracker owns the vector and changes it in place
	tables  atomic.Uint64        // see Head
	live    bool                 // the listener is connected, so at can be trusted
	waiting map[*waiter]struct{}
}

// waiter waits for a goal. Its channel is closed when the goal is reached, or when the
// tracker no longer knows the position.
type waiter struct {
	goal
	wake chan struct{}
}

// await reports that a goal is reached, or returns a waiter for the goal. While the
// listener is down it returns neither.
func (t *tracker) await(g goal) (w *waiter, reached bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.live:
		return nil, false
	case g.reach(t.at.Vector) >= g.seq:
		return nil, true
	case t.waiting == nil:
		t.waiting = make(map[*waiter]struct{})
	}
	w = &waiter{goal: g, wake: make(chan struct{})}
	t.waiting[w] = struct{}{}
	return w, false
}

// forget removes a waiter that no longer waits.
func (t *tracker) forget(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waiting, w)
}

// wake wakes the waiters whose goal is reached. If the listener is down, it wakes all:
// each then reads the checkpoint itself.
func (t *tracker) wake() {
	for w := range t.waiting {
		if !t.live || w.reach(t.at.Vector) >= w.seq {
			close(w.wake)
			delete(t.waiting, w)
		}
	}
}

// reached reports whether all partitions are known to have reached seq.
func (t *tracker) reached(seq uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live && t.at.Lowest() >= seq
}

// compare reports whether a checkpoint that the listener read belongs to other tables
// than the known one, and whether it is a step back.
func (t *tracker) compare(c projector.Checkpoint) (exchanged, back bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at.Generation == "" {
		return false, false
	}
	back = !c.Reaches(t.at.Vector)
	return back || c.Generation != t.at.Generation, back
}

// set stores a checkpoint that the listener read, which covers all partitions. exchanged
// is compare's result for it.
func (t *tracker) set(c projector.Checkpoint, exchanged bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if exchanged {
		t.tables.Add(1)
	}
	t.at, t.live = c, true
	t.at.Vector = append(projector.Vector(nil), c.Vector...)
	t.wake()
}

// advance stores an announcement. It returns false if the announcement does not continue
// the known position: another generation, rows with other bounds, or a step back. Then
// the tracker stays as it is, and the listener reads all rows.
func (t *tracker) advance(a announcement) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.at.Index(a.First)
	if !t.live || a.generation != t.at.Generation || i < 0 || t.at.Vector[i].Partitions != a.Partitions || a.seq < t.at.Vector[i].Seq {
		return false
	}
	t.at.Vector[i].Seq = a.seq
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

// highest returns the highest position of any partition that the listener last knew, and
// whether the listener is connected. The position is 0 before the listener first
// connected.
func (t *tracker) highest() (seq uint64, live bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at.Highest(), t.live
}

// known returns the position for a goal, as far as this process knows.
func (t *tracker) known(g goal) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return g.reach(t.at.Vector)
}
