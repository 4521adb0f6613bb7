package grant

import (
	"context"
	"fmt"
	"sync"

	"github.com/memory-ledger/ledger/services/memory"
)

// caseLimiter bounds the readers that work on a case's document at the same time by the
// reads that the case has left. Further readers would render a document for which no read
// is left, or get ErrBusy because of the cost of all the documents. So they wait, and
// then find the case alive or dead.
type caseLimiter struct {
	mu     sync.Mutex
	byCase map[string]*slot // only cases with readers
}

type slot struct {
	readers int           // at work or waiting
	working chan struct{} // holds one element for each reader at work
}

// enter waits until the caller may work on the case with this id. The caller then calls
// leave, once. width is how many readers may work at a time. The first caller's width
// applies until the last reader has left. waited reports that other readers came first.
// Errors: memory.ErrBusy, if too many readers wait or ctx ends first.
func (l *caseLimiter) enter(ctx context.Context, id string, width int) (leave func(), waited bool, err error) {
	mine, err := l.join(id, width)
	if err != nil {
		return nil, false, err
	}
	leave = func() {
		<-mine.working
		l.part(id, mine)
	}
	select {
	case mine.working <- struct{}{}:
		return leave, false, nil
	default:
	}
	select {
	case mine.working <- struct{}{}:
		return leave, true, nil
	case <-ctx.Done():
		l.part(id, mine)
		return nil, true, fmt.Errorf("%w: %w", memory.ErrBusy, ctx.Err())
	}
}

func (l *caseLimiter) join(id string, width int) (*slot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := l.byCase[id]
	if mine == nil {
		mine = &slot{working: make(chan struct{}, width)}
		if l.byCase == nil {
			l.byCase = map[string]*slot{}
		}
		l.byCase[id] = mine
	}
	if mine.readers >= cap(mine.working)+1024 {
		return nil, memory.ErrBusy
	}
	mine.readers++
	return mine, nil
}

func (l *caseLimiter) part(id string, mine *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if mine.readers--; mine.readers == 0 {
		delete(l.byCase, id)
	}
}
