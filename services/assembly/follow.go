package assembly

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events/eventlog"
)

// provisioned is the log by a consumer that an administrator made. Where it is
// not there, it says which setting names it and who makes it.
type provisioned struct {
	eventlog.Durable
	consumer, variable string
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
