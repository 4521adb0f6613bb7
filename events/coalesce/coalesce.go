// Package coalesce lets concurrent callers share one request.
package coalesce

import (
	"context"
	"sync"
	"time"
)

// Calls lets concurrent callers share one fetch. A caller never gets the result of a
// fetch that started before the caller arrived: it shares the next one.
type Calls[T any] struct {
	Fetch func(context.Context) (T, error)

	mu      sync.Mutex
	running bool
	next    *call[T]
}

type call[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// Get returns the result of a fetch that began after the call.
func (s *Calls[T]) Get(ctx context.Context) (T, error) {
	s.mu.Lock()
	c := s.next
	if c == nil {
		c = &call[T]{done: make(chan struct{})}
		s.next = c
		if !s.running {
			s.running = true
			go s.run()
		}
	}
	s.mu.Unlock()
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}

// run fetches until no caller wants another fetch.
func (s *Calls[T]) run() {
	for {
		s.mu.Lock()
		c := s.next
		s.next = nil
		if c == nil {
			s.running = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		c.value, c.err = s.Fetch(ctx)
		cancel()
		close(c.done)
	}
}
