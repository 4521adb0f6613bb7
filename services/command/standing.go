package command

import (
	"context"
	"time"

	"github.com/memory-ledger/ledger/events"
)

// Standing is an owner's status in the log.
type Standing struct {
	UserID     string
	Registered bool // the owner has signed in at least once
	Erasures   int  // how often the owner has erased everything
	// KeyMissing says that the data key may be missing: no leaf was sealed with it.
	KeyMissing bool
}

// Standing returns an owner's status in the log.
func (x *Executor) Standing(ctx context.Context, owner events.Owner) (is Standing, err error) {
	err = x.inTurn(ctx, owner, func(ctx context.Context, e *entry) (time.Duration, error) {
		e.fresh = false // another process may have written since this one read the tail
		if err := x.catchUp(ctx, owner, e); err != nil {
			return 0, err
		}
		s := e.state
		is = Standing{s.UserID, s.Registered, s.Erased.Times, !s.Registered || s.Erased.Times > 0 && s.Erased.Leaves == s.Leaves}
		return 0, nil
	})
	return is, err
}
