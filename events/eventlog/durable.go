package eventlog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// durableLook is how often an idle follower checks the log's end, and looks for its
// consumer if the consumer is away. Then, or if no leader answers, it checks the log's end as
// often as [Direct] does.
const durableLook = time.Second

// Durable is the log for a reader that gets new messages from a consumer that an
// administrator has made. On a cluster with permissions, only an administrator may make a
// consumer.
//
// The consumer only makes delivery prompt, so it costs the log as little as possible: one
// node keeps it, in memory, and messages are not acknowledged. If that node is away, so is
// the consumer; when it comes back, it delivers only new messages. Followers that share a
// consumer get a part of the messages each. A follower uses direct gets for the messages
// that the consumer does not deliver, and drops messages that it delivers again.
type Durable struct {
	*JetStream
	consumer string
}

var _ Log = Durable{}

// Durable returns the log as followed through that consumer. If the consumer does not
// deliver a message, the follower finds it within a second, and within a tenth of a second
// while other messages arrive, or while the consumer is known to be away: the message is only
// late, not lost.
func (l *JetStream) Durable(consumer string) Durable { return Durable{l, consumer} }

// Follow implements Follower. It uses the consumer only if cfg has no subject. It can
// start while the consumer is away. If the consumer was never made, the error is
// jetstream.ErrConsumerNotFound.
func (d Durable) Follow(ctx context.Context, cfg FollowConfig, yield func(Slice) error) error {
	if cfg.Subject != "" {
		return d.Direct().Follow(ctx, cfg, yield)
	}
	from, head, err := d.begin(ctx, cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := durableFollower{Durable: d, cfg: cfg, gatherer: newGatherer(cfg, from, math.MaxUint64), yield: yield}
	opening := f.open(ctx)
	if f.next, err = d.Direct().fill(ctx, cfg, from, head, yield); err != nil {
		return ended(ctx, err)
	}
	return ended(ctx, d.noteGap(f.run(ctx, opening)))
}

type durableFollower struct {
	Durable
	gatherer
	away  atomic.Bool // the consumer missed its heartbeats, and has delivered nothing since
	cfg   FollowConfig
	yield func(Slice) error
}

// opened holds the consumer's messages, which arrive until closed is closed, or the error
// that prevents them.
type opened struct {
	incoming <-chan jetstream.Msg
	closed   <-chan struct{}
	err      error
}

// open starts the delivery of the consumer's messages, until ctx ends, and sends the
// result.
func (f *durableFollower) open(ctx context.Context) <-chan opened {
	result := make(chan opened, 1)
	go func() {
		asking, cancel := context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
		consumer, err := f.js.Consumer(asking, StreamName, f.consumer)
		if err != nil {
			result <- opened{err: err}
			return
		}
		incoming, consuming, err := prefetch(ctx, consumer, func(error) { f.away.Store(true) }) // the client recovers if it can
		if err != nil {
			result <- opened{err: err}
			return
		}
		context.AfterFunc(ctx, consuming.Stop)
		result <- opened{incoming, consuming.Closed(), nil}
	}()
	return result
}

func (f *durableFollower) run(ctx context.Context, opening <-chan opened) error {
	look := time.NewTimer(durableLook)
	defer look.Stop()
	var is opened
	opens := time.Now()
	for first := true; ; {
		select {
		case <-ctx.Done():
			return nil
		case is = <-opening:
			opening = nil
			if first && errors.Is(is.err, jetstream.ErrConsumerNotFound) {
				return fmt.Errorf("follow: %w: %w", ErrUnavailable, is.err)
			}
			first = false
		case <-is.closed:
			is = opened{err: ErrUnavailable}
		case msg := <-is.incoming:
			f.away.Store(false)
			if err := f.take(ctx, msg, is.incoming); err != nil {
				return err
			}
		case <-look.C:
			if is.err != nil && opening == nil && time.Since(opens) >= durableLook {
				opening, opens = f.open(ctx), time.Now()
			}
			wait := directPoll
			switch head, err := f.Head(ctx); {
			case err == nil && head >= f.next:
				if err := f.fill(ctx, head); err != nil {
					return err
				}
			case err == nil && is.err == nil && !f.away.Load():
				wait = durableLook
			}
			look.Reset(wait)
		}
	}
}

// take yields a message and all messages already received that follow it without a gap. A
// crash before the caller has stored them loses nothing: the caller resumes at its
// checkpoint.
func (f *durableFollower) take(ctx context.Context, msg jetstream.Msg, incoming <-chan jetstream.Msg) error {
	meta, err := msg.Metadata()
	if err != nil {
		return fmt.Errorf("follow: message without metadata: %w", err)
	}
	seq := meta.Sequence.Stream
	if seq < f.next {
		return nil // already yielded
	}
	if seq > f.next {
		return f.fill(ctx, seq)
	}
	slice, rest, err := f.gather(msg, incoming)
	if err != nil && !errors.Is(err, ErrGap) {
		return fmt.Errorf("follow: %w", err)
	}
	if err := f.yield(slice); err != nil {
		return err
	}
	if rest != nil {
		return f.take(ctx, rest, nil)
	}
	return nil
}

// fill reads by direct gets up to a sequence that the log is known to hold.
func (f *durableFollower) fill(ctx context.Context, to uint64) (err error) {
	f.next, err = f.Direct().fill(ctx, f.cfg, f.next, to, f.yield)
	return err
}
