package eventlog

import (
	"context"
	"errors"
	"fmt"
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
	f := durableFollower{log: d.Direct(), cfg: cfg, next: max(1, cfg.From), yield: yield}
	head, err := d.Head(ctx)
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	if f.next > head+1 {
		return fmt.Errorf("follow from %d, log ends at %d: %w", f.next, head, ErrTruncated)
	}
	consumer, err := d.js.Consumer(ctx, StreamName, d.consumer)
	if err != nil {
		return fmt.Errorf("follow: %w: %w", ErrUnavailable, err)
	}
	if err := f.fill(ctx, head); err != nil {
		return ended(ctx, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	incoming, consuming, err := prefetch(ctx, consumer)
	if err != nil {
		return err
	}
	defer consuming.Stop()
	return ended(ctx, d.damage.note(f.run(ctx, incoming, consuming.Closed())))
}

// ended turns the end of ctx into the end of a follow.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

type durableFollower struct {
	log   Direct
	cfg   FollowConfig
	next  uint64
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
	gatherer := follower{cfg: f.cfg, next: f.next, contiguous: true}
	slice, last, rest, err := gatherer.gatherRun(msg, incoming)
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	if err := f.yield(slice); err != nil {
		return err
	}
	f.next = slice.Last + 1
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

// gatherRun is gather that ends at a message which does not follow, and gives
// that one back.
func (f *follower) gatherRun(msg jetstream.Msg, incoming <-chan jetstream.Msg) (slice Slice, last, rest jetstream.Msg, err error) {
	maxRecords, maxBytes := f.cfg.bounds()
	slice = Slice{First: f.next}
	for size := 0; ; {
		record, err := f.record(msg)
		if errors.Is(err, ErrGap) && len(slice.Records) > 0 {
			return slice, last, msg, nil
		}
		if err != nil {
			return Slice{}, nil, nil, err
		}
		slice.Records, last = append(slice.Records, record), msg
		slice.Last, f.next = record.Seq, record.Seq+1
		size += len(record.Payload)
		if len(slice.Records) >= maxRecords || size >= maxBytes {
			return slice, last, nil, nil
		}
		select {
		case msg = <-incoming:
		default:
			return slice, last, nil, nil
		}
	}
}

// fill reads by direct gets up to a sequence that the log is known to hold.
func (f *durableFollower) fill(ctx context.Context, to uint64) error {
	return f.log.Read(ctx, ReadConfig{From: f.next, To: to, MaxBytes: f.cfg.MaxBytes}, func(slice Slice) error {
		for _, part := range parts(slice, f.cfg.MaxRecords) {
			if err := f.yield(part); err != nil {
				return err
			}
			f.next = part.Last + 1
		}
		return nil
	})
}

// parts cuts a contiguous slice into slices of at most limit records.
func parts(slice Slice, limit int) []Slice {
	if limit <= 0 || len(slice.Records) <= limit {
		return []Slice{slice}
	}
	var all []Slice
	for records := slice.Records; len(records) > 0; {
		n := min(limit, len(records))
		all = append(all, Slice{First: records[0].Seq, Last: records[n-1].Seq, Records: records[:n]})
		records = records[n:]
	}
	return all
}
