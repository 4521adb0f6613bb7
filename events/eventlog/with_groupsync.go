package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/memory-ledger/ledger/events"
)

// groupSynced is a log on a server that acknowledges a message before the message is on
// stable storage.
type groupSynced struct {
	Log
	sync func(context.Context) error
}

// WithGroupSync returns a log whose appends end with a sync that many of them share. The
// server below leaves the fsync to sync, which returns once everything that was
// acknowledged, or could be read, before the call is on stable storage.
//
// A crash between an append and its sync leaves a message that followers may have seen and
// a power cut may lose. Its writer has not answered. An owner's messages, on which decisions
// and answers rest, are synced before they are returned.
func WithGroupSync(log Log, sync func(context.Context) error) Log { return groupSynced{log, sync} }

func (g groupSynced) Append(ctx context.Context, a Append) (uint64, error) {
	seq, err := g.Log.Append(ctx, a)
	if err == nil {
		if err = g.sync(ctx); err != nil {
			err = fmt.Errorf("%w: %w", ErrUncertain, err)
		}
	} else if conflict := (Conflict{}); errors.As(err, &conflict) && len(conflict.Tail) > 0 {
		if unsynced := g.durable(ctx); unsynced != nil {
			return 0, unsynced
		}
	}
	return seq, err
}

func (g groupSynced) OwnerNewest(ctx context.Context, f events.Family, o events.Owner, kind events.SubjectKind) (Record, bool, error) {
	r, found, err := g.Log.OwnerNewest(ctx, f, o, kind)
	if found && err == nil {
		err = g.durable(ctx)
	}
	return r, found, err
}

// OwnerTail implements Reader. The sync also covers what yield saw before it failed.
func (g groupSynced) OwnerTail(ctx context.Context, f events.Family, o events.Owner, after uint64, yield func(Record) error) error {
	some := false
	err := g.Log.OwnerTail(ctx, f, o, after, func(r Record) error {
		some = true
		return yield(r)
	})
	if some {
		if unsynced := g.durable(ctx); unsynced != nil {
			return unsynced
		}
	}
	return err
}

func (g groupSynced) durable(ctx context.Context) error {
	if err := g.sync(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}
