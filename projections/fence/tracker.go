package fence

import (
	"github.com/memory-ledger/ledger/events"

	"container/heap"
	"sync"
	"sync/atomic"

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

// tracker is the newest position that this process knows, and who waits for
// more.
type tracker struct {
	mu     sync.Mutex
	at     projector.Checkpoint // its vector belongs to the tracker, which moves it in place
	lowest uint64
	tables atomic.Uint64 // see Head
	live   bool          // the listener stands, so at may be believed
	all    waiters
	rows   []*waiters // for one partition, by the mark that it has
}

// waiter waits for a goal. It is woken when that is reached, or when the tracker
// can't tell any more.
type waiter struct {
	goal
	wake chan struct{}
	home *waiters // the heap that it is in, nil once woken
	slot int      // in the heap
}

// await reports that a goal is reached, or returns a waiter for it. It does neither
// while the listener is down.
func (t *tracker) await(g goal) (w *waiter, reached bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.live {
		return nil, false
	}
	if t.has(g) {
		return nil, true
	}
	w = &waiter{goal: g, wake: make(chan struct{})}
	t.add(w)
	return w, false
}

// has reports whether a goal is reached, by what is known.
func (t *tracker) has(g goal) bool {
	if g.partition == everybody {
		return t.lowest >= g.seq
	}
	return g.reach(t.at.Vector) >= g.seq
}

func (t *tracker) add(w *waiter) {
	w.home = &t.all
	if w.partition != everybody {
		w.home = t.rows[t.at.Index(w.partition)]
	}
	heap.Push(w.home, w)
}

// reached reports whether all partitions are known to have reached seq.
func (t *tracker) reached(seq uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live && t.lowest >= seq
}

// forget takes a waiter out that does not wait any longer.
func (t *tracker) forget(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.home != nil {
		heap.Remove(w.home, w.slot)
	}
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
	// The rows may have other bounds now: each waiter is put into its row again.
	var moving waiters
	for _, row := range t.rows {
		moving = append(moving, *row...)
	}
	t.at, t.live = c, true
	t.at.Vector = append(projector.Vector(nil), c.Vector...)
	t.rows = make([]*waiters, len(t.at.Vector))
	for i := range t.rows {
		t.rows[i] = new(waiters)
	}
	for _, w := range moving {
		t.add(w)
	}
	for i, row := range t.rows {
		row.wakeUpTo(t.at.Vector[i].Seq)
	}
	t.settle()
}

// highest is how far the read models are known to be with any owner, 0 where that
// is not to be believed.
func (t *tracker) highest() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.live {
		return 0
	}
	return t.at.Highest()
}

// last is how far the read models were known to be when the listener last stood.
func (t *tracker) last() (highest uint64, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at.Highest(), t.at.Generation != ""
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
	t.rows[i].wakeUpTo(a.seq)
	t.settle()
	return true
}

// settle works out how far all partitions are, and wakes who waits for that.
func (t *tracker) settle() {
	t.lowest = t.at.Lowest()
	t.all.wakeUpTo(t.lowest)
}

// lost notes that the listener is down. All waiters are woken, so that each reads
// the checkpoint itself.
func (t *tracker) lost() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live = false
	for _, h := range append(t.rows, &t.all) {
		for h.Len() > 0 {
			close(heap.Pop(h).(*waiter).wake)
		}
	}
}

// known is how far the read models are with what a goal is about, as far as
// this process knows.
func (t *tracker) known(g goal) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return g.reach(t.at.Vector)
}

// waiters is a heap, lowest sequence first.
type waiters []*waiter

func (h *waiters) wakeUpTo(seq uint64) {
	for len(*h) > 0 && (*h)[0].seq <= seq {
		close(heap.Pop(h).(*waiter).wake)
	}
}

func (h waiters) Len() int           { return len(h) }
func (h waiters) Less(i, j int) bool { return h[i].seq < h[j].seq }

func (h waiters) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].slot, h[j].slot = i, j
}

func (h *waiters) Push(x any) {
	w := x.(*waiter)
	w.slot = len(*h)
	*h = append(*h, w)
}

func (h *waiters) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	w.home = nil
	return w
}
