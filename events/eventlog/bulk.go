package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// prefetched is how many messages a reader holds in memory at most besides the current
// slice, 16 MiB of them.
const prefetched = 2000

// Bulk is the log for clients that replay all of it and are allowed to make consumers. A
// consumer costs the server a fourth of what direct gets cost: the server sends a message
// as it is stored, with its place in the reply subject.
type Bulk struct {
	*JetStream
	node string // the node to read from; empty: any
}

// Bulk returns the log as a replay reads it.
func (l *JetStream) Bulk() Bulk { return Bulk{JetStream: l} }

// Replica returns the log as one node keeps it. It reads through a consumer on that node,
// which needs an administrator's rights, and without a filter. A client can't choose the node
// that answers a direct get: in nats-server 2.15 any node may answer, not only the one that
// the client is connected to.
func (l *JetStream) Replica(node string) Bulk { return Bulk{JetStream: l, node: node} }

// Read implements PartReader. Besides the current slice, at most 16 MiB and 2,000 messages
// are prefetched. A short or filtered part is read by direct gets.
func (b Bulk) Read(ctx context.Context, cfg ReadConfig, yield func(Slice) error) error {
	if b.node == "" && (cfg.Subject != "" || cfg.To < max(1, cfg.From)+batchRecords) {
		return b.JetStream.Read(ctx, cfg, yield)
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = 4 << 20
	}
	bounds := FollowConfig{MaxRecords: batchRecords, MaxBytes: cfg.MaxBytes}
	c := consumption{log: b.JetStream, node: b.node, gatherer: newGatherer(bounds, max(1, cfg.From), cfg.To)}
	return c.run(ctx, yield)
}

// Permitted returns an error if these credentials do not allow reading through a consumer.
func (b Bulk) Permitted(ctx context.Context) error {
	consumer, err := (&consumption{log: b.JetStream, node: b.node, gatherer: gatherer{next: 1}}).pinned(ctx)
	if err != nil {
		return err
	}
	b.drop(ctx, consumer)
	return nil
}

// consumption reads through one consumer after another.
type consumption struct {
	gatherer
	log  *JetStream
	node string // whose replica is read; empty: any
}

// run yields slices until everything is read. If a consumer fails, the next one begins
// where the messages of the failed one ended.
func (c *consumption) run(ctx context.Context, yield func(Slice) error) error {
	for !c.done() {
		again, err := c.consume(ctx, yield)
		switch {
		case c.done() || !again:
			return err
		case !c.log.again(ctx):
			return readEnds(ctx, c.next, err)
		}
	}
	return nil
}

// consume yields the messages of one consumer until everything is read or an error occurs.
// again reports that another consumer can continue: the server or the consumer is gone, or
// a message was lost in transit. After a crash the server drops the consumer by itself,
// after half a minute.
func (c *consumption) consume(ctx context.Context, yield func(Slice) error) (again bool, err error) {
	consumer, err := c.pinned(ctx)
	if err != nil {
		return true, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	incoming, consuming, err := prefetch(ctx, consumer, func(_ jetstream.ConsumeContext, err error) { cancel(fmt.Errorf("%w: %w", ErrUnavailable, err)) })
	if err != nil {
		return true, err
	}
	defer func() { // in the background: both steps wait some seconds while the server is away
		go func() {
			consuming.Stop()
			c.log.drop(context.WithoutCancel(ctx), consumer)
		}()
	}()
	c.place = 1
	for !c.done() {
		select {
		case <-ctx.Done():
			return true, context.Cause(ctx)
		case <-consuming.Closed():
			return true, fmt.Errorf("%w: the consumer is closed", ErrUnavailable)
		case msg := <-incoming:
			slice, _, broken := c.gather(msg, incoming)
			if len(slice.Records) > 0 {
				if err := yield(slice); err != nil {
					return false, err
				}
			}
			if broken != nil {
				return errors.Is(broken, errLost), c.log.noteGap(broken)
			}
		}
	}
	return false, nil
}

// pinned makes a consumer that reads from the node's replica, or from any replica if no
// node is set.
func (c *consumption) pinned(ctx context.Context) (jetstream.Consumer, error) {
	for range 64 { // the server picks any of the nodes each time
		consumer, err := c.log.create(ctx, c.next)
		if err != nil || c.node == "" {
			return consumer, err
		}
		if info := consumer.CachedInfo(); info.Cluster == nil || info.Cluster.Leader == c.node {
			return consumer, nil
		}
		c.log.drop(ctx, consumer)
	}
	return nil, fmt.Errorf("%w: no consumer came to be on node %s", ErrUnavailable, c.node)
}

// create makes a consumer that delivers the messages from a sequence on.
func (l *JetStream) create(ctx context.Context, from uint64) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	consumer, err := l.js.CreateConsumer(ctx, StreamName, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: 30 * time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: make a consumer: %w", ErrUnavailable, err)
	}
	return consumer, nil
}

// drop deletes a consumer on the server. If that fails, the server drops it later by
// itself.
func (l *JetStream) drop(ctx context.Context, consumer jetstream.Consumer) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	_ = l.js.DeleteConsumer(ctx, StreamName, consumer.CachedInfo().Name)
}

// prefetch starts the delivery of a consumer's messages, within bounds, until ctx ends and
// the caller calls Stop. It calls failed with each error of the consumer.
func prefetch(ctx context.Context, consumer jetstream.Consumer, failed func(jetstream.ConsumeContext, error)) (<-chan jetstream.Msg, jetstream.ConsumeContext, error) {
	incoming := make(chan jetstream.Msg, prefetched)
	consuming, err := consumer.Consume(func(msg jetstream.Msg) {
		select {
		case incoming <- msg:
		case <-ctx.Done():
		}
	},
		jetstream.PullMaxMessagesWithBytesLimit(prefetched, 16<<20),
		jetstream.PullHeartbeat(time.Second), jetstream.PullExpiry(5*time.Second),
		jetstream.ConsumeErrHandler(failed),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return incoming, consuming, nil
}
