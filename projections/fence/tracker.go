package fence

import (
	"container/heap"
	"sync"
)

// position is a checkpoint: comparable within one generation only.
type position struct {
	generation string
	seq        uint64
}

// tracker is the newest position that this process knows, and who waits for
// more.
type tracker struct {
	mu   sync.Mutex
	at   position
	live bool // the listener stands, so at may be believed
	wait waiters
}

// waiter waits for a sequence. It is woken when that is reached, or when the
// tracker can't tell any more.
type waiter struct {
	seq  uint64
	wake chan struct{}
	slot int // in the heap, -1 once woken
}

// await reports that seq is reached, or returns a waiter for it, or neither
// where nobody listens.
func (t *tracker) await(seq uint64) (w *waiter, reached bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.live:
		return nil, false
	case t.at.seq >= seq:
		return nil, true
	}
	w = &waiter{seq: seq, wake: make(chan struct{})}
	heap.Push(&t.wait, w)
	return w, false
}

// reached reports whether seq is known to be reached.
func (t *tracker) reached(seq uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live && t.at.seq >= seq
}

// forget takes a waiter out that does not wait any longer.
func (t *tracker) forget(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.slot >= 0 {
		heap.Remove(&t.wait, w.slot)
	}
}

// set notes what the listener read, and reports whether that is a step back.
func (t *tracker) set(p position) (back bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	back = p.seq < t.at.seq || (t.at.generation != "" && p.generation != t.at.generation)
	t.at, t.live = p, true
	t.wakeUpTo(p.seq)
	return back
}

// advance notes what the listener was told. It reports false for a position
// that does not continue the one that is known, and keeps that.
func (t *tracker) advance(p position) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.live || p.generation != t.at.generation || p.seq < t.at.seq {
		return false
	}
	t.at = p
	t.wakeUpTo(p.seq)
	return true
}

// lost notes that nobody listens any more. Everybody is woken, to look for
// themselves.
func (t *tracker) lost() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live = false
	for len(t.wait) > 0 {
		close(heap.Pop(&t.wait).(*waiter).wake)
	}
}

func (t *tracker) wakeUpTo(seq uint64) {
	for len(t.wait) > 0 && t.wait[0].seq <= seq {
		close(heap.Pop(&t.wait).(*waiter).wake)
	}
}

func (t *tracker) newest() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at.seq
}

// waiters is a heap, lowest sequence first.
type waiters []*waiter

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
	w.slot = -1
	return w
}
