package eventlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// bulkRecords is how many messages make a consumer worth while. Fewer are
	// one direct get.
	bulkRecords = 1000
	// bulkForget is after how long the server drops the consumer of a reader
	// that died.
	bulkForget = 30 * time.Second
)

// Bulk is the log for those who replay all of it and may make consumers. The
// server hands out a message to a consumer at a fourth of what a direct get
// costs it: as it is stored, with its place in the reply subject. Who may not
// make consumers reads by [Direct].
type Bulk struct {
	*JetStream
	node string // that is read from; empty: any
}

var (
	_ Log        = Bulk{}
	_ PartReader = Bulk{}
)

// Bulk returns the log as a replay reads it.
func (l *JetStream) Bulk() Bulk { return Bulk{JetStream: l} }

// Read implements PartReader. Beyond the slices, 16 MiB and 2,000 messages may
// be on their way. What is short or filtered is read by direct gets.
func (b Bulk) Read(ctx context.Context, cfg ReadConfig, yield func(Slice) error) error {
	if b.node == "" && (cfg.Subject != "" || cfg.To < max(1, cfg.From)+bulkRecords) {
		return b.Direct().Read(ctx, cfg, yield)
	}
	return readAhead(ctx, cfg, b.fetch, yield)
}

// fetch sends the slices of a Read.
func (b Bulk) fetch(ctx context.Context, cfg ReadConfig, out chan<- Slice) error {
	return b.gather(ctx, newGatherer(ctx, cfg, out))
}

// gather reads what is missing. Whatever happens to a consumer, the next one begins
// where its messages ended.
func (b Bulk) gather(ctx context.Context, g *gatherer) error {
	for {
		err := b.consume(ctx, g)
		switch {
		case g.done():
			return nil
		case errors.Is(err, ErrGap):
			return fmt.Errorf("read: %w", b.damage.note(err))
		case !b.again(ctx):
			return readEnds(ctx, g.next, err)
		}
	}
}

// consume gathers from one consumer until all is read or something is in the
// way: the server, the consumer, or a message that got lost on its way here. A
// crash leaves the consumer to the server, which forgets it.
func (b Bulk) consume(ctx context.Context, g *gatherer) error {
	consumer, err := b.consumerOn(ctx, b.node, g.next)
	if err != nil {
		return err
	}
	defer b.dropConsumer(ctx, consumer.CachedInfo().Name)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var gathering sync.Mutex // held by the one message that is being taken
	g.delivered = 0
	consuming, err := consumer.Consume(func(msg jetstream.Msg) {
		gathering.Lock()
		defer gathering.Unlock()
		if ctx.Err() != nil {
			return
		}
		if err := g.take(msg); err != nil {
			cancel(err)
		} else if g.done() {
			cancel(nil)
		}
	},
		jetstream.PullMaxMessagesWithBytesLimit(prefetchRecords, prefetchBytes),
		jetstream.PullHeartbeat(followHeartbeat), jetstream.PullExpiry(followExpiry),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			cancel(fmt.Errorf("%w: %w", ErrUnavailable, err))
		}),
	)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer consuming.Stop()
	select {
	case <-ctx.Done():
	case <-consuming.Closed():
		cancel(fmt.Errorf("%w: the connection is closed", ErrUnavailable))
	}
	gathering.Lock() // what is being taken is; nothing is taken from here on
	defer gathering.Unlock()
	return context.Cause(ctx)
}

func (b Bulk) makeConsumer(ctx context.Context, from uint64) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	consumer, err := b.js.CreateConsumer(ctx, StreamName, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: bulkForget,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: make a consumer: %w", ErrUnavailable, err)
	}
	return consumer, nil
}

func (b Bulk) dropConsumer(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptTimeout)
	defer cancel()
	_ = b.js.DeleteConsumer(ctx, StreamName, name) // or the server forgets it
}

// gatherer makes slices of messages that come one after the other.
type gatherer struct {
	cfg       ReadConfig
	next      uint64 // sequence in the log
	delivered uint64 // messages that this consumer sent, also those that got lost
	slice     Slice  // up to next
	size      int    // of its payloads, in bytes
	send      func(Slice) error
}

func newGatherer(ctx context.Context, cfg ReadConfig, out chan<- Slice) *gatherer {
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = batchBytes
	}
	return &gatherer{cfg: cfg, next: cfg.From, send: func(slice Slice) error {
		select {
		case out <- slice:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
}

func (g *gatherer) done() bool { return g.next > g.cfg.To }

// errLost: the server sent a message that did not arrive.
var errLost = errors.New("a message got lost on its way")

// take adds a message that a consumer brought.
func (g *gatherer) take(msg jetstream.Msg) error {
	meta, err := msg.Metadata()
	if err != nil {
		return fmt.Errorf("message without metadata: %w", err)
	}
	if g.delivered++; meta.Sequence.Consumer != g.delivered {
		return errLost
	}
	if meta.Sequence.Stream != g.next {
		return gap(g.next, meta.Sequence.Stream)
	}
	return g.add(Record{
		Seq: g.next, Subject: msg.Subject(), Time: meta.Timestamp,
		CommandID: msg.Headers().Get(jetstream.MsgIDHeader), Payload: msg.Data(),
	})
}

// add adds the next message, and sends the slice where that makes it long enough.
func (g *gatherer) add(r Record) error {
	if len(g.slice.Records) == 0 {
		g.slice.First, g.slice.Records = g.next, make([]Record, 0, min(batchRecords, g.cfg.To-g.next+1))
	}
	g.slice.Last = g.next
	g.slice.Records = append(g.slice.Records, r)
	g.size += len(r.Payload)
	g.next++
	if len(g.slice.Records) < batchRecords && g.size < g.cfg.MaxBytes && !g.done() {
		return nil
	}
	whole := g.slice
	g.slice, g.size = Slice{}, 0
	if err := g.send(whole); err != nil {
		g.next = whole.First // it was not delivered
		return err
	}
	return nil
}
