package eventlog

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	defaultMaxRecords = 1000
	defaultMaxBytes   = 8 << 20
	// prefetchBytes bounds what a follower holds in memory beyond the slice
	// that is being worked on.
	prefetchBytes   = 16 << 20
	prefetchRecords = 2000
	// followHeartbeat bounds how long a follower takes to notice that its
	// consumer is gone (twice that).
	followHeartbeat = time.Second
	followExpiry    = 5 * time.Second
	// followForget is after how long the server drops the consumer of a
	// follower that died.
	followForget = 30 * time.Second
)

// Follow implements Follower. It follows by an ordered consumer: the server keeps no state
// for it, and the client replaces one that is lost at the next sequence.
func (l *JetStream) Follow(ctx context.Context, cfg FollowConfig, yield func(Slice) error) error {
	from := max(1, cfg.From)
	head, err := l.Head(ctx)
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	if from > head+1 {
		return fmt.Errorf("follow from %d, log ends at %d: %w", from, head, ErrTruncated)
	}
	ordered := jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from, InactiveThreshold: followForget,
	}
	if cfg.Subject != "" {
		ordered.FilterSubjects = []string{cfg.Subject}
	}
	consumer, err := l.js.OrderedConsumer(ctx, StreamName, ordered)
	if err != nil {
		return fmt.Errorf("follow: %w: %w", ErrUnavailable, err)
	}
	// An error of the consumer that it does not mend itself ends the follow;
	// the caller starts again from its checkpoint.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	incoming, consuming, err := prefetch(ctx, consumer)
	if err != nil {
		return err
	}
	defer func() { go l.leave(consumer, consuming) }()
	f := follower{cfg: cfg, contiguous: cfg.Subject == "", next: from}
	return l.damage.note(f.run(ctx, incoming, consuming.Closed(), yield))
}

// leave stops a consumer and has the server drop it. Otherwise a follower that
// turns to the tail and back would leave many behind. Both steps wait some seconds
// while the server is away, so Follow runs leave in the background. The server
// drops a consumer by itself if this fails; see followForget.
func (l *JetStream) leave(consumer jetstream.Consumer, consuming jetstream.ConsumeContext) {
	consuming.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), attemptTimeout)
	defer cancel()
	_ = l.js.DeleteConsumer(ctx, StreamName, consumer.CachedInfo().Name)
}

// prefetch has a consumer's messages come in, within bounds, until ctx ends and
// the caller calls Stop.
func prefetch(ctx context.Context, consumer jetstream.Consumer) (<-chan jetstream.Msg, jetstream.ConsumeContext, error) {
	incoming := make(chan jetstream.Msg, prefetchRecords)
	consuming, err := consumer.Consume(func(msg jetstream.Msg) {
		select {
		case incoming <- msg:
		case <-ctx.Done():
		}
	},
		jetstream.PullMaxMessagesWithBytesLimit(prefetchRecords, prefetchBytes),
		jetstream.PullHeartbeat(followHeartbeat), jetstream.PullExpiry(followExpiry),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("follow: %w: %w", ErrUnavailable, err)
	}
	return incoming, consuming, nil
}

// bounds returns how long a slice gets.
func (c *FollowConfig) bounds() (maxRecords, maxBytes int) {
	maxRecords, maxBytes = c.MaxRecords, c.MaxBytes
	if maxRecords <= 0 {
		maxRecords = defaultMaxRecords
	}
	if maxBytes <= 0 {
		maxBytes = defaultMaxBytes
	}
	return maxRecords, maxBytes
}

// follower gathers messages into slices.
type follower struct {
	cfg        FollowConfig
	contiguous bool
	next       uint64
}

func (f *follower) run(ctx context.Context, incoming <-chan jetstream.Msg, closed <-chan struct{}, yield func(Slice) error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-closed:
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("follow: consumer closed: %w", ErrUnavailable)
		case msg := <-incoming:
			slice, err := f.gather(msg, incoming)
			if err != nil {
				return fmt.Errorf("follow: %w", err)
			}
			if err := yield(slice); err != nil {
				return err
			}
		}
	}
}

// gather takes the first message and whatever else is already there: a slice
// is as long as the follower is behind, within bounds, and never waits.
func (f *follower) gather(msg jetstream.Msg, incoming <-chan jetstream.Msg) (Slice, error) {
	maxRecords, maxBytes := f.cfg.bounds()
	slice := Slice{First: f.next, Records: make([]Record, 0, min(maxRecords, len(incoming)+1))}
	for size := 0; ; {
		record, err := f.record(msg)
		if err != nil {
			return Slice{}, err
		}
		slice.Records = append(slice.Records, record)
		slice.Last = record.Seq
		f.next = record.Seq + 1
		size += len(record.Payload)
		if len(slice.Records) >= maxRecords || size >= maxBytes {
			return slice, nil
		}
		select {
		case msg = <-incoming:
		default:
			return slice, nil
		}
	}
}

func (f *follower) record(msg jetstream.Msg) (Record, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return Record{}, fmt.Errorf("message without metadata: %w", err)
	}
	seq := meta.Sequence.Stream
	if seq < f.next || (f.contiguous && seq != f.next) {
		return Record{}, gap(f.next, seq)
	}
	return Record{
		Seq: seq, Subject: msg.Subject(), Time: meta.Timestamp,
		CommandID: msg.Headers().Get(jetstream.MsgIDHeader), Payload: msg.Data(),
	}, nil
}
