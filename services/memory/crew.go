package memory

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// crew is goroutines that do one piece of work. The first error of one ends the
// others' work, and is the one that is told; a panic is an error too.
type crew struct {
	ctx   context.Context
	stop  context.CancelCauseFunc
	group sync.WaitGroup
}

// newCrew returns a crew and the context of its work. The caller defers stop(nil).
func newCrew(ctx context.Context) (*crew, context.Context) {
	ctx, stop := context.WithCancelCause(ctx)
	return &crew{ctx: ctx, stop: stop}, ctx
}

// beside has f done by another goroutine.
func (c *crew) beside(f func() error) {
	c.group.Go(func() {
		defer func() {
			if p := recover(); p != nil { // nobody above would catch it
				c.stop(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			}
		}()
		c.done(f())
	})
}

// done takes what somebody's part of the work ended with.
func (c *crew) done(err error) {
	if err != nil {
		c.stop(err)
	}
}

// wait returns once all are done.
func (c *crew) wait() error {
	c.group.Wait()
	return context.Cause(c.ctx)
}
