package memory

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/memory-ledger/ledger/events"
)

// ErrBusy: too much of the same owner, or of everybody, waits to be looked
// through. Answer 503 with Retry-After.
var ErrBusy = errors.New("too many searches and lists are waiting")

const (
	waitingOfOwner = 256
	waitingOfAll   = 2048
)

// Turns shares out the work of long lists and searches. It is done in pieces,
// at a time one fewer than there are processors, and who waits for the next
// piece is served owner by owner, in turn: one with a huge log, or with a hundred
// searches at once, takes no more of the machine than one with a small one, and
// what is left of the machine is for requests that take a moment. A search that
// is alone may use the last processor too.
type Turns struct {
	mu      sync.Mutex
	free    int
	spare   bool // the last processor is not in use
	waiting int
	lines   map[events.Owner]*line
	next    *list.List // of *line: whose turn it is
}

// line is the waiters of one owner, first come first.
type line struct {
	owner   events.Owner
	waiters []*turn
	place   *list.Element
}

type turn struct {
	ready chan struct{} // closed when it is given
}

// NewTurns returns Turns for the processors of this machine.
func NewTurns() *Turns { return newTurns(max(1, runtime.NumCPU()-1)) }

// shortTurns is how many short pieces are done at a time. They wait for the
// database rather than for a processor.
const shortTurns = 2

// NewShortTurns returns Turns for pieces that take a moment, which would
// otherwise wait for a long one of each owner who has any; see [Cursor.Next].
func NewShortTurns() *Turns { return newTurns(shortTurns) }

func newTurns(slots int) *Turns {
	return &Turns{free: slots, spare: true, lines: map[events.Owner]*line{}, next: list.New()}
}

// Take waits for the owner's turn with a piece of some work. The caller does
// that piece and calls release, once. Work that has begun was let in, and its
// answer may be under way: it waits however many others do. Errors: ErrBusy,
// where it has not begun, and ErrBusy with ctx's where that ends first.
func (t *Turns) Take(ctx context.Context, owner events.Owner, begun bool) (release func(), err error) {
	t.mu.Lock()
	if t.free > 0 && t.waiting == 0 {
		t.free--
		t.mu.Unlock()
		return t.release, nil
	}
	mine := &turn{ready: make(chan struct{})}
	if err := t.enqueue(owner, mine, begun); err != nil {
		t.mu.Unlock()
		return nil, err
	}
	t.mu.Unlock()
	select {
	case <-mine.ready:
		return t.release, nil
	case <-ctx.Done():
		t.leave(owner, mine)
		return nil, fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
	}
}

// TryTake takes the spare processor where nobody waits for a turn, and returns
// nil otherwise. It is for a moment's help with a piece of work.
func (t *Turns) TryTake() (release func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.spare || t.waiting > 0 {
		return nil
	}
	t.spare = false
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.spare = true
	}
}

// Alone reports whether nobody waits for a turn.
func (t *Turns) Alone() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting == 0
}

// enqueue bounds who comes in. What has begun is bounded by that, and by the
// connections that its answers go to.
func (t *Turns) enqueue(owner events.Owner, w *turn, begun bool) error {
	l := t.lines[owner]
	if !begun && (t.waiting >= waitingOfAll || (l != nil && len(l.waiters) >= waitingOfOwner)) {
		return ErrBusy
	}
	if l == nil {
		l = &line{owner: owner}
		l.place = t.next.PushBack(l)
		t.lines[owner] = l
	}
	l.waiters = append(l.waiters, w)
	t.waiting++
	return nil
}

// release gives the turn to the first in the line of the owner whose turn it
// is, and puts that line at the end.
func (t *Turns) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	front := t.next.Front()
	if front == nil {
		t.free++
		return
	}
	l := front.Value.(*line)
	close(l.waiters[0].ready)
	l.waiters = l.waiters[1:]
	t.waiting--
	if len(l.waiters) == 0 {
		t.drop(l)
		return
	}
	t.next.MoveToBack(front)
}

func (t *Turns) drop(l *line) {
	t.next.Remove(l.place)
	delete(t.lines, l.owner)
}

// leave takes a waiter out of its line, or hands on the turn that it was given
// in the same moment.
func (t *Turns) leave(owner events.Owner, w *turn) {
	t.mu.Lock()
	l := t.lines[owner]
	if l != nil {
		if i := slices.Index(l.waiters, w); i >= 0 {
			l.waiters = slices.Delete(l.waiters, i, i+1)
			t.waiting--
			if len(l.waiters) == 0 {
				t.drop(l)
			}
			t.mu.Unlock()
			return
		}
	}
	t.mu.Unlock()
	t.release()
}
