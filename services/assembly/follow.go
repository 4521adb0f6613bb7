package assembly

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/fence"
)

// provisioned is the log by a consumer that an administrator made. Where it is
// not there, it says which setting names it and who makes it.
type provisioned struct {
	eventlog.Durable
	consumer, variable string
}

// fitting is a log that nothing is decided on, or appended to, while it is older than
// the read models: an older copy may have been put in its place.
type fitting struct {
	eventlog.Log
	check func(context.Context) error
}

// newFence returns a fence, which the appends of this process ask from now on.
func (b *Base) newFence(o fence.Options) (*fence.Fence, error) {
	o.Logger, o.Connection = b.Logger, b.Log.Connection
	f, err := fence.New(b.Pool, b.Log, o)
	if err == nil {
		b.checkLog = f.CheckLog
	}
	return f, err
}

// Append implements eventlog.Appender.
func (l fitting) Append(ctx context.Context, a eventlog.Append) (uint64, error) {
	if err := l.check(ctx); err != nil {
		return 0, err
	}
	return l.Log.Append(ctx, a)
}

// OwnerTail implements eventlog.Reader.
func (l fitting) OwnerTail(ctx context.Context, f events.Family, o events.Owner, after uint64, yield func(eventlog.Record) error) error {
	if err := l.check(ctx); err != nil {
		return err
	}
	return l.Log.OwnerTail(ctx, f, o, after, yield)
}

// follower returns the log as a service follows it: by the consumer that a
// variable names, or by one of its own where it names none.
func follower(log *eventlog.JetStream, variable, consumer string) eventlog.Log {
	if consumer == "" {
		return log
	}
	return provisioned{log.Durable(consumer), consumer, variable}
}

// Follow implements eventlog.Follower.
func (p provisioned) Follow(ctx context.Context, cfg eventlog.FollowConfig, yield func(eventlog.Slice) error) error {
	err := p.Durable.Follow(ctx, cfg, yield)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("the log has no consumer %s, which %s names: run `ledger provision`: %w", p.consumer, p.variable, err)
	}
	return err
}
