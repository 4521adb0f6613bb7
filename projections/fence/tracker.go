package fence

import (
	"sync"
	"sync/atomic"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/projector"
)

// everybody stands for all partitions.
const everybody = -1

// goal is what a wait is for: that a sequence is projected in one partition, or
// in all.
type goal struct {
	partition int // or everybody
	seq       uint64
}

// reach is how far read models are with what a goal is about.
func (g goal) reach(v projector.Vector) uint64 {
	if g.partition == everybody {
		return v.Lowest()
	}
	return v.At(g.partition)
}

// announcement is what a projector says of a row of the checkpoint.
type announcement struct {
	generation string
	events.Partitions
	seq uint64
}

// tracker is the newest position that this process knows, and the callers that wait for
// more.
type tracker struct {
	mu      sync.Mutex
	at      projector.Checkpoint // its vector belongs to the tracker, which moves it in place
	tables  atomic.Uint64        // see Head
	live    bool                 // the listener stands, so at may be believed
	waiting map[*waiter]struct{}
}

// waiter waits for a goal. Its channel is closed when the goal is reached, or when the
// tracker can't tell any more.
type waiter struct {
	goal
	wake chan struct{}
}

// await reports that a goal is reached, or returns a waiter for it. It does neither
// while the listener is down.
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

// forget takes out a waiter that does not wait any longer.
func (t *tracker) forget(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waiting, w)
}

// wake wakes those whose goal is reached, and all where the listener is down: each then
// reads the checkpoint itself.
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

// compare reports whether a checkpoint that the listener read is of other tables than
// what is known, and whether it is a step back.
func (t *tracker) compare(c projector.Checkpoint) (exchanged, back bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at.Generation == "" {
		return false, false
	}
	back = !c.Reaches(t.at.Vector)
	return back || c.Generation != t.at.Generation, back
}

// set notes what the listener read, which covers all partitions; exchanged is what
// compare said of it.
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

// advance notes what the listener was told. It reports false for what does not
// continue what is known: another generation, rows with other bounds, or a step
// back. Then it keeps what it knows, and the listener reads all rows.
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

// highest is how far the read models were known to be with any owner when the listener
// last stood, and whether it stands. It is 0 before the listener first stood.
func (t *tracker) highest() (seq uint64, live bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at.Highest(), t.live
}

// known is how far the read models are with what a goal is about, as far as
// this process knows.
func (t *tracker) known(g goal) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return g.reach(t.at.Vector)
}
