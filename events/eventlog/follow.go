package eventlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// followLook is how often an idle follower checks the log's end, and looks for its
// consumer if the consumer is away. Without a consumer, if no leader answers, or if the
// consumer has not delivered what was there, it checks the log's end every retryPause.
const followLook = 500 * time.Millisecond

// Follow implements Follower. Messages come from a consumer, which only makes delivery
// prompt: direct gets fetch what the consumer does not deliver, and messages that it
// delivers again are dropped. So if the consumer is away, messages come late, not never. If
// cfg names a consumer that was never made, the error is jetstream.ErrConsumerNotFound.
//
// A named consumer costs the log as little as possible: one node keeps it, in memory, and
// messages are not acknowledged. If that node is away, so is the consumer. Followers that
// share a consumer get a part of the messages each.
func (l *JetStream) Follow(ctx context.Context, cfg FollowConfig, yield func(Slice) error) error {
	from := max(1, cfg.From)
	head, err := HeadHolding(ctx, l, from-1)
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	if from > head+1 {
		return fmt.Errorf("follow from %d, log ends at %d: %w", from, head, ErrTruncated)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := follower{log: l, cfg: cfg, gatherer: newGatherer(cfg, from, math.MaxUint64), yield: yield}
	return ended(ctx, l.noteGap(f.run(ctx, head)))
}

// ended returns the result of a follow: nil if ctx has ended, else err.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

type follower struct {
	gatherer
	log   *JetStream
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

var errNoConsumer = errors.New("no consumer")

// open starts the delivery of the messages after a sequence, until ctx ends, and sends the
// result.
func (f *follower) open(ctx context.Context, after uint64) <-chan opened {
	result := make(chan opened, 1)
	if f.cfg.Poll || f.cfg.Subject != "" {
		result <- opened{err: errNoConsumer}
		return result
	}
	own := f.cfg.Consumer == ""
	go func() {
		consumer, err := f.consumer(context.WithoutCancel(ctx), after)
		if err != nil {
			result <- opened{err: err}
			return
		}
		incoming, consuming, err := prefetch(ctx, consumer, func(c jetstream.ConsumeContext, _ error) {
			if f.away.Store(true); own { // else the client recovers if it can
				c.Stop()
			}
		})
		if err != nil {
			result <- opened{err: err}
			return
		}
		context.AfterFunc(ctx, func() {
			if consuming.Stop(); own {
				f.log.drop(context.WithoutCancel(ctx), consumer)
			}
		})
		result <- opened{incoming, consuming.Closed(), nil}
	}()
	return result
}

// consumer returns the named consumer, or makes one.
func (f *follower) consumer(ctx context.Context, after uint64) (jetstream.Consumer, error) {
	if f.cfg.Consumer == "" {
		return f.log.create(ctx, after+1) // a crash leaves it to the server for half a minute
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return f.log.js.Consumer(ctx, StreamName, f.cfg.Consumer)
}

// run yields messages until ctx ends. The log is known to end at head or later.
func (f *follower) run(ctx context.Context, head uint64) error {
	opening, opens := f.open(ctx, head), time.Now()
	if err := f.fill(ctx, head); err != nil {
		return err
	}
	look := time.NewTimer(retryPause)
	defer look.Stop()
	var is opened
	late := false // the consumer did not deliver what the last looks found
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
			late = false
			if err := f.take(ctx, msg, is.incoming); err != nil {
				return err
			}
		case <-look.C:
			if len(is.incoming) > 0 { // there is more than yield could take
				look.Reset(retryPause)
				continue
			}
			if is.err != nil && opening == nil && time.Since(opens) >= followLook {
				opening, opens = f.open(ctx, f.next-1), time.Now()
			}
			prompt, err := f.look(ctx)
			if err != nil {
				return err
			}
			late = late || !prompt
			wait := retryPause
			if !late && is.err == nil && !f.away.Load() {
				wait = followLook
			}
			look.Reset(wait)
		}
	}
}

// look reads up to the log's end. prompt reports that nothing new was there: a consumer
// that works delivers messages sooner.
func (f *follower) look(ctx context.Context) (prompt bool, err error) {
	head, err := HeadHolding(ctx, f.log, f.next-1)
	switch {
	case err != nil && f.log.nc.IsClosed():
		return false, fmt.Errorf("follow: %w", err)
	case err != nil:
		return false, nil
	case head < f.next-1:
		return false, fmt.Errorf("follow from %d, log ends at %d: %w", f.next, head, ErrTruncated)
	}
	return head < f.next, f.fill(ctx, head)
}

// take yields a message and all messages already received that follow it without a gap. A
// crash before the caller has stored them loses nothing: the caller resumes at its
// checkpoint.
func (f *follower) take(ctx context.Context, msg jetstream.Msg, incoming <-chan jetstream.Msg) error {
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

// fill yields the messages up to a sequence that the log is known to hold, by direct gets.
func (f *follower) fill(ctx context.Context, to uint64) error {
	read := ReadConfig{From: f.next, To: to, Subject: f.cfg.Subject, MaxBytes: f.cfg.MaxBytes}
	err := f.log.Read(ctx, read, func(slice Slice) error {
		for _, part := range parts(slice, f.maxRecords) {
			if err := f.yield(part); err != nil {
				return err
			}
			f.next = part.Last + 1
		}
		return nil
	})
	if err == nil {
		f.next = max(f.next, to+1)
	}
	return err
}

// parts cuts a slice into slices of at most limit records.
func parts(slice Slice, limit int) []Slice {
	var all []Slice
	for len(slice.Records) > limit {
		last := slice.Records[limit-1].Seq
		all = append(all, Slice{First: slice.First, Last: last, Records: slice.Records[:limit]})
		slice.First, slice.Records = last+1, slice.Records[limit:]
	}
	return append(all, slice)
}

// bounds returns the limits of a slice.
func (c *FollowConfig) bounds() (maxRecords, maxBytes int) {
	return cmp.Or(max(0, c.MaxRecords), 1000), cmp.Or(max(0, c.MaxBytes), 8<<20)
}

// gatherer builds slices from messages that arrive one after another.
type gatherer struct {
	maxRecords, maxBytes int
	contiguous           bool   // no sequence may be missing
	next, to             uint64 // sequences in the log
	place                uint64 // consumer sequence of the next message; 0: any
}

func newGatherer(cfg FollowConfig, from, to uint64) gatherer {
	g := gatherer{contiguous: cfg.Subject == "", next: from, to: to}
	g.maxRecords, g.maxBytes = cfg.bounds()
	return g
}

func (g *gatherer) done() bool { return g.next > g.to }

// errLost: the server sent a message that did not arrive.
var errLost = errors.New("a message got lost on its way")

// gather takes the first message and all messages that have already arrived, within
// bounds. It never waits: a slice is as long as the reader is behind. The slice ends before
// a message that does not continue it; gather returns that message as rest, with the
// reason.
func (g *gatherer) gather(msg jetstream.Msg, incoming <-chan jetstream.Msg) (slice Slice, rest jetstream.Msg, err error) {
	slice = Slice{First: g.next, Records: make([]Record, 0, min(g.maxRecords, len(incoming)+1))}
	for size := 0; ; {
		record, err := g.record(msg)
		if err != nil {
			return slice, msg, err
		}
		slice.Records = append(slice.Records, record)
		slice.Last, g.next = record.Seq, record.Seq+1
		size += len(record.Payload)
		if len(slice.Records) >= g.maxRecords || size >= g.maxBytes || g.done() {
			return slice, nil, nil
		}
		select {
		case msg = <-incoming:
		default:
			return slice, nil, nil
		}
	}
}

func (g *gatherer) record(msg jetstream.Msg) (Record, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return Record{}, fmt.Errorf("message without metadata: %w", err)
	}
	if g.place > 0 {
		if meta.Sequence.Consumer != g.place {
			return Record{}, errLost
		}
		g.place++
	}
	if seq := meta.Sequence.Stream; seq < g.next || g.contiguous && seq != g.next {
		return Record{}, gap(g.next, seq)
	}
	return Record{
		Seq: meta.Sequence.Stream, Subject: msg.Subject(), Time: meta.Timestamp,
		CommandID: msg.Headers().Get(jetstream.MsgIDHeader), Payload: msg.Data(),
	}, nil
}
