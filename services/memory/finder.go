package memory

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/memory-ledger/ledger/projections/readmodel/memories"
)

const (
	// maxQuestions is how many questions a finder has under way. One keeps the
	// database busy while the answer to the other is taken apart.
	maxQuestions = 2
	// maxWanted bounds what one question asks for: 17 MB where all bodies are as
	// long as they may be.
	maxWanted = 64
	// questionTimeout bounds a question that outlives those who asked it.
	questionTimeout = 5 * time.Second
)

// finder reads memories by id. Readers that come while maxQuestions are under way
// share the next question. Otherwise a reader's question is asked at once, without
// waiting for other readers. A question costs the database and its client many
// times what a row of its answer does.
//
// A reader gets the answer to a question that was asked after the reader came, so
// the answer includes what the reader was fenced for.
type finder struct {
	ask func(context.Context, []memories.Wanted) ([]*memories.Memory, error)

	mu      sync.Mutex
	asking  int
	waiting []*lookup // in the order in which they came
}

// lookup is what one reader waits for.
type lookup struct {
	wanted memories.Wanted
	done   chan struct{} // closed once found and err are set
	found  *memories.Memory
	err    error
}

func newFinder(ask func(context.Context, []memories.Wanted) ([]*memories.Memory, error)) *finder {
	return &finder{ask: ask}
}

// find returns a memory, nil if the owner has none of that id.
func (f *finder) find(ctx context.Context, wanted memories.Wanted) (*memories.Memory, error) {
	l := &lookup{wanted: wanted, done: make(chan struct{})}
	f.mu.Lock()
	f.waiting = append(f.waiting, l)
	if f.asking < maxQuestions {
		f.asking++
		go f.run()
	}
	f.mu.Unlock()
	select {
	case <-l.done:
		return l.found, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run asks as long as readers wait.
func (f *finder) run() {
	for {
		f.mu.Lock()
		now := f.waiting[:min(len(f.waiting), maxWanted)]
		f.waiting = f.waiting[len(now):]
		if len(now) == 0 {
			f.waiting = nil
			f.asking--
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		f.answer(now)
	}
}

func (f *finder) answer(now []*lookup) {
	ctx, cancel := context.WithTimeout(context.Background(), questionTimeout)
	defer cancel()
	wanted := make([]memories.Wanted, len(now))
	for i, l := range now {
		wanted[i] = l.wanted
	}
	found, err := f.recovered(ctx, wanted)
	for i, l := range now {
		if l.err = err; err == nil {
			l.found = found[i]
		}
		close(l.done)
	}
}

// recovered asks, and turns a panic into an error: no caller above catches it, and
// all readers of the question wait for an answer.
func (f *finder) recovered(ctx context.Context, wanted []memories.Wanted) (found []*memories.Memory, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("find memories: panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f.ask(ctx, wanted)
}
