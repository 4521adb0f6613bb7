package eventlog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// durableLook is how often a follower that hears nothing looks at the log's end, and
// for its consumer, where that is away.
const durableLook = time.Second

// Durable is the log for a reader to which a consumer, which an administrator has made,
// brings new messages. On a cluster with permissions, only an administrator may make one.
//
// The consumer is for promptness alone, so it costs the log as little as can be: one node
// keeps it, in memory, and nothing is acknowledged. It is away with that node, begins with
// what is new when it is back, and brings each of those who share it a part. What it does
// not bring is read by direct gets, and what it brings again is dropped.
type Durable struct {
	*JetStream
	consumer string
}

var _ Log = Durable{}

// Durable returns the log as the holder of that consumer follows it. A message that the
// consumer does not bring is found within a second, and within a tenth while others
// come: nothing is lost but promptness.
func (l *JetStream) Durable(consumer string) Durable { return Durable{l, consumer} }

// Follow implements Follower, for a configuration without a subject. It begins, too, while
// the consumer is away. One that was never made is jetstream.ErrConsumerNotFound.
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
	return ended(ctx, d.damage.note(f.run(ctx, opening)))
}

type durableFollower struct {
	Durable
	gatherer
	cfg   FollowConfig
	yield func(Slice) error
}

// opened is the consumer's messages, until closed, or why they do not come.
type opened struct {
	incoming <-chan jetstream.Msg
	closed   <-chan struct{}
	err      error
}

// open has the consumer's messages come in until ctx ends. It sends what came of it.
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
		incoming, consuming, err := prefetch(ctx, consumer, func(error) {}) // the client mends what it can
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
			if err := f.take(ctx, msg, is.incoming); err != nil {
				return err
			}
		case <-look.C:
			if is.err != nil && opening == nil {
				opening = f.open(ctx)
			}
			wait := durableLook
			if head, err := f.Head(ctx); err == nil && head >= f.next { // else the server may be away
				if err := f.fill(ctx, head); err != nil {
					return err
				}
				wait = directPoll
			}
			look.Reset(wait)
		}
	}
}

// take hands over a message and whatever else is there that follows it without a gap. A
// crash before the caller has kept them loses nothing, for the caller's checkpoint says
// where it goes on.
func (f *durableFollower) take(ctx context.Context, msg jetstream.Msg, incoming <-chan jetstream.Msg) error {
	meta, err := msg.Metadata()
	if err != nil {
		return fmt.Errorf("follow: message without metadata: %w", err)
	}
	seq := meta.Sequence.Stream
	if seq < f.next {
		return nil // known already
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
