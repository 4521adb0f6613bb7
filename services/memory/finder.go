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
	// maxQuestions is how many queries a finder runs at the same time. With two, the
	// database works on one while the answer to the other is decoded.
	maxQuestions = 2
	// maxWanted bounds the memories of one query: 17 MB if all bodies have the maximum
	// length.
	maxWanted = 64
	// questionTimeout bounds a query whose readers have all left.
	questionTimeout = 5 * time.Second
)

// finder reads memories by id. While maxQuestions queries are running, new readers share
// the next query; otherwise a reader's query runs at once. A query costs the database and
// the client many times as much as a row of its answer.
//
// A query always starts after its readers arrived, so the answer includes everything that
// they were fenced for.
type finder struct {
	ask func(context.Context, []memories.Wanted) ([]*memories.Memory, error)

	mu      sync.Mutex
	asking  int
	waiting []*lookup // in order of arrival
}

// lookup is one reader's request.
type lookup struct {
	reader context.Context // after its end no one waits for the answer
	wanted memories.Wanted
	done   chan struct{} // closed once found and err are set
	found  *memories.Memory
	err    error
}

func newFinder(ask func(context.Context, []memories.Wanted) ([]*memories.Memory, error)) *finder {
	return &finder{ask: ask}
}

// find returns a memory, or nil if the owner has none with that id.
func (f *finder) find(ctx context.Context, wanted memories.Wanted) (*memories.Memory, error) {
	l := &lookup{reader: ctx, wanted: wanted, done: make(chan struct{})}
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

// run runs queries as long as readers wait. It skips readers who have left: while a
// database hangs, many come and leave, and those who come later must not wait for them.
func (f *finder) run() {
	for {
		f.mu.Lock()
		var now []*lookup
		for ; len(f.waiting) > 0 && len(now) < maxWanted; f.waiting = f.waiting[1:] {
			if l := f.waiting[0]; l.reader.Err() == nil {
				now = append(now, l)
			}
		}
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

// recovered runs a query, and turns a panic into an error: no caller recovers it, and all
// readers of the query wait for an answer.
func (f *finder) recovered(ctx context.Context, wanted []memories.Wanted) (found []*memories.Memory, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("find memories: panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f.ask(ctx, wanted)
}
