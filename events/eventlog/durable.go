package eventlog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// durableLook is how often a follower that hears nothing looks at the log's
// end: messages may have gone to a follower before it, that died.
const durableLook = time.Second

// Durable is the log for a reader whose place in the log is a durable consumer
// that an administrator has made. On a cluster with permissions, only an
// administrator may make one. The consumer's only use is to bring new messages
// quickly. It may not bring some: it is ahead of the caller's checkpoint, or gave
// a message to a follower that died. Those are read by direct gets. Messages that
// it brings again are dropped.
type Durable struct {
	*JetStream
	consumer string
}

var _ Log = Durable{}

// Durable returns the log as the holder of that consumer follows it. Of
// followers that share one, each is brought a part and finds the rest by itself,
// at the next message that it is brought or within a second: nothing is lost
// but promptness.
func (l *JetStream) Durable(consumer string) Durable { return Durable{l, consumer} }

// Follow implements Follower, for a configuration without a subject.
func (d Durable) Follow(ctx context.Context, cfg FollowConfig, yield func(Slice) error) error {
	if cfg.Subject != "" {
		return d.Direct().Follow(ctx, cfg, yield)
	}
	from, head, err := d.begin(ctx, cfg)
	if err != nil {
		return err
	}
	f := durableFollower{log: d.Direct(), cfg: cfg, gatherer: newGatherer(cfg, from, math.MaxUint64), yield: yield}
	consumer, err := d.js.Consumer(ctx, StreamName, d.consumer)
	if err != nil {
		return fmt.Errorf("follow: %w: %w", ErrUnavailable, err)
	}
	if f.next, err = f.log.fill(ctx, cfg, from, head, yield); err != nil {
		return ended(ctx, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	incoming, consuming, err := prefetch(ctx, consumer, func(error) {}) // the client mends what it can
	if err != nil {
		return err
	}
	defer consuming.Stop()
	return ended(ctx, d.damage.note(f.run(ctx, incoming, consuming.Closed())))
}

type durableFollower struct {
	gatherer
	log   Direct
	cfg   FollowConfig
	yield func(Slice) error
}

func (f *durableFollower) run(ctx context.Context, incoming <-chan jetstream.Msg, closed <-chan struct{}) error {
	look := time.NewTicker(durableLook)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-closed:
			return fmt.Errorf("follow: consumer closed: %w", ErrUnavailable)
		case msg := <-incoming:
			if err := f.take(ctx, msg, incoming); err != nil {
				return err
			}
		case <-look.C:
			head, err := f.log.Head(ctx)
			if err != nil {
				continue // the server is away; the consumer waits for it
			}
			if err := f.fill(ctx, head); err != nil {
				return err
			}
		}
	}
}

// take hands over a message and whatever else is there that follows it without
// a gap. Acknowledging says no more than: do not bring these again. A crash
// before the caller has kept them loses nothing, for the caller's checkpoint
// says where it goes on.
func (f *durableFollower) take(ctx context.Context, msg jetstream.Msg, incoming <-chan jetstream.Msg) error {
	meta, err := msg.Metadata()
	if err != nil {
		return fmt.Errorf("follow: message without metadata: %w", err)
	}
	seq := meta.Sequence.Stream
	if seq < f.next {
		return acknowledge(msg) // known already
	}
	if seq > f.next {
		if err := f.fill(ctx, seq); err != nil {
			return err
		}
		return acknowledge(msg)
	}
	slice, last, rest, err := f.gather(msg, incoming)
	if err != nil && !errors.Is(err, ErrGap) {
		return fmt.Errorf("follow: %w", err)
	}
	if err := f.yield(slice); err != nil {
		return err
	}
	if err := acknowledge(last); err != nil {
		return err
	}
	if rest != nil {
		return f.take(ctx, rest, nil)
	}
	return nil
}

// acknowledge confirms everything up to a message. An acknowledgement that is
// lost is made up for by the next.
func acknowledge(msg jetstream.Msg) error {
	if err := msg.Ack(); err != nil && !errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
		return fmt.Errorf("follow: acknowledge: %w: %w", ErrUnavailable, err)
	}
	return nil
}

// fill reads by direct gets up to a sequence that the log is known to hold.
func (f *durableFollower) fill(ctx context.Context, to uint64) (err error) {
	f.next, err = f.log.fill(ctx, f.cfg, f.next, to, f.yield)
	return err
}
