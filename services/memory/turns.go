package memory

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Turns bounds how many callers use the same key at a time. It keeps nothing of keys that
// are not in use.
type Turns[K comparable] struct {
	mu      sync.Mutex
	lines   map[K]*line
	callers int // of all keys
}

type line struct {
	callers int // at work or waiting
	working *semaphore.Weighted
}

// Take waits until fewer than width callers use a key. The width of the first caller applies
// until the last one has left. The caller then calls leave, once. waited reports that others
// came first. Errors: ErrBusy if already most callers use the key or wait for it, or,
// together with ctx's error, if ctx ends first.
func (t *Turns[K]) Take(ctx context.Context, key K, width, most int) (leave func(), waited bool, err error) {
	mine, err := t.join(key, width, most)
	if err != nil {
		return nil, false, err
	}
	if waited = !mine.working.TryAcquire(1); waited {
		if err := mine.working.Acquire(ctx, 1); err != nil {
			t.part(key, mine)
			return nil, true, fmt.Errorf("%w: %w", ErrBusy, err)
		}
	}
	return func() {
		mine.working.Release(1)
		t.part(key, mine)
	}, waited, nil
}

// Callers returns how many callers use a key or wait for one.
func (t *Turns[K]) Callers() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.callers
}

func (t *Turns[K]) join(key K, width, most int) (*line, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.lines[key]
	if mine == nil {
		mine = &line{working: semaphore.NewWeighted(int64(width))}
	}
	if mine.callers >= most {
		return nil, ErrBusy
	}
	if t.lines == nil {
		t.lines = map[K]*line{}
	}
	t.lines[key] = mine
	mine.callers++
	t.callers++
	return mine, nil
}

func (t *Turns[K]) part(key K, mine *line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.callers--
	if mine.callers--; mine.callers == 0 {
		delete(t.lines, key)
	}
}
