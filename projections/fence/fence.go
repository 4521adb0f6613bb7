package fence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/tracing"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
)

// ErrBehind: the read models did not catch up in time. Nothing is wrong with
// the request; answer 503 with Retry-After.
var ErrBehind = errors.New("read models are behind the log")

// ErrLogShort: the log is not the one that the read models are made of, or has lost
// its end, or the server that answers for it does not know its end. Do not show what
// the read models hold, and append nothing: answer 503.
var ErrLogShort = errors.New("the log is shorter than the read models know it")

const (
	defaultTimeout = 5 * time.Second
	defaultPoll    = time.Second
	// recheck is how often a wait reads the checkpoint for itself while the
	// listener is down.
	recheck    = 20 * time.Millisecond
	minBackoff = 50 * time.Millisecond
	maxBackoff = 2 * time.Second
)

// Options of a fence. The zero value is good.
type Options struct {
	Timeout    time.Duration         // longest wait, whatever the caller's deadline; 0 means 5 s
	Poll       time.Duration         // how often the checkpoint is read besides being told; 0 means 1 s
	Logger     *slog.Logger          // nil means slog.Default()
	Registerer prometheus.Registerer // nil means no metrics
	// Connection returns another number whenever another server may answer for the log.
	// nil: the same one always does.
	Connection func() uint64
	// Lag is for how long the log may say that it ends before what the read models hold;
	// see eventlog.HeadHolding.
	Lag time.Duration
	// Heads is asked before the log; nil: the log always is.
	Heads HeadSource
	// OnWait, if set, is called by every wait that begins, with the sequence that it
	// waits for. It must not block.
	OnWait func(seq uint64)
	// OnExchange, if set, is called when the read models were exchanged, before any Head
	// says so. A cache must drop what it read of the old ones: they may have been wrong.
	// It must not block.
	OnExchange func()
}

// Fence holds reads back until the read models are caught up.
type Fence struct {
	pool    *pgxpool.Pool
	log     eventlog.Reader
	opts    Options
	channel string
	metrics *metrics

	known       tracker
	short       atomic.Pointer[error] // ErrLogShort, where the listener found that
	fits        atomic.Uint64         // the connection by which the log was last found long enough, 0 before that
	away        atomic.Pointer[error] // why the listener is down, nil while it stands
	heads       shared[uint64]
	checkpoints shared[projector.Checkpoint]
}

// HeadSource may know, without asking the log, what an owner's newest message is; see
// eventlog.OwnerHeads.
type HeadSource interface {
	Newest(owner events.Owner) (seq uint64, known bool)
}

// New returns a fence over the read models that the pool sees. It works at
// once; waits are woken promptly, and cost no queries, while Run runs.
func New(pool *pgxpool.Pool, log eventlog.Reader, opts Options) (*Fence, error) {
	opts.Timeout = cmp.Or(max(0, opts.Timeout), defaultTimeout)
	opts.Poll = cmp.Or(max(0, opts.Poll), defaultPoll)
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	if opts.Connection == nil {
		opts.Connection = func() uint64 { return 1 }
	}
	f := &Fence{pool: pool, log: log, opts: opts, channel: schema.Channel(schema.Name(pool))}
	f.heads.fetch = log.Head
	f.checkpoints.fetch = func(ctx context.Context) (projector.Checkpoint, error) { return projector.ReadCheckpoint(ctx, pool) }
	m, err := newMetrics(opts.Registerer, f)
	if err != nil {
		return nil, fmt.Errorf("fence: %w", err)
	}
	f.metrics = m
	return f, nil
}

// WaitOwner returns once the read models reflect every event of the owner that was
// acknowledged before the call, also those about the chain. It waits only for the
// projector of the owner's partition.
// Errors: ErrBehind, ErrLogShort, the log's, ctx's.
func (f *Fence) WaitOwner(ctx context.Context, owner events.Owner) error {
	_, err := f.WaitOwnerHead(ctx, owner)
	return err
}

// Head is what a wait says about the read models. What was read of an owner after a
// wait that returned one is still true after each that returns the same, if Known.
type Head struct {
	// Seq is a sequence that the read models hold, after which the log had nothing of
	// the owner: the log's newest, or the owner's. 0 where that is not known.
	Seq uint64
	// Tables counts how often this process has seen the read models exchanged. What was
	// read of the ones before may be wrong, even if it never changes.
	Tables uint64
}

// Known reports whether an equal Head means that nothing has changed.
func (h Head) Known() bool { return h.Seq != 0 }

// Tables is the Tables of a Head that is made now.
func (f *Fence) Tables() uint64 { return f.known.tables.Load() }

// Before reports whether h is of an earlier moment, as far as both know.
func (h Head) Before(other Head) bool {
	return h.Tables < other.Tables || h.Tables == other.Tables && h.Seq < other.Seq
}

// WaitOwnerHead is WaitOwner, and returns a Head of the owner's.
func (f *Fence) WaitOwnerHead(ctx context.Context, owner events.Owner) (Head, error) {
	return f.waitHead(ctx, events.PartitionOf(owner), owner)
}

// waitHead waits for an owner's events, or for all events where the partition is everybody.
func (f *Fence) waitHead(ctx context.Context, partition int, owner events.Owner) (Head, error) {
	ctx, cancel := context.WithTimeout(ctx, f.opts.Timeout)
	defer cancel()
	ctx, span := tracing.Start(ctx, "fence")
	defer span.End()
	if err := f.checkLength(); err != nil {
		return Head{}, err
	}
	h := Head{Tables: f.Tables()} // before anything is waited for
	ofOwner := partition != everybody
	if ofOwner && f.opts.Heads != nil {
		if seq, known := f.opts.Heads.Newest(owner); known {
			h.Seq = seq
			return h, f.wait(ctx, goal{partition, seq})
		}
	}
	position, live := f.known.highest()
	if !live {
		position = 0 // the database may have been restored, and proves nothing
	}
	seq, err := f.newest(ctx, position)
	if err != nil {
		return Head{}, err
	}
	if ofOwner {
		// Mostly the read models hold the whole log, and the question for its newest
		// message, which concurrent callers share, is enough. Only while writes are
		// under way is the log asked about this owner.
		if f.known.reached(seq) {
			f.metrics.passed.Inc()
			h.Seq = seq
			return h, nil
		}
		if seq, err = f.log.OwnerHead(ctx, events.FamilyAny, owner); err != nil {
			return Head{}, fmt.Errorf("fence: %w", err)
		}
	}
	return h, f.wait(ctx, goal{partition, seq})
}

// newest asks for the log's newest sequence. It can't be behind what the read models were
// known to hold before the question.
func (f *Fence) newest(ctx context.Context, position uint64) (uint64, error) {
	head, err := eventlog.HeadHolding(ctx, f.heads.get, position, f.opts.Lag)
	if err == nil {
		err = lengthError(position, head)
	}
	if err != nil {
		return 0, fmt.Errorf("fence: %w", err)
	}
	return head, nil
}

// CheckLog returns ErrLogShort where the log is older than what the read models were last
// known to hold: then nothing may be appended to it. It asks the log only when another
// log may answer: at first, and after each time that the connection was lost. The listener
// finds a log that was exchanged behind a connection that stands. Errors: ErrLogShort, the
// log's, and at first the database's.
func (f *Fence) CheckLog(ctx context.Context) error {
	connection := f.opts.Connection()
	if err := f.checkLength(); err != nil || f.fits.Load() == connection {
		return err
	}
	position, _ := f.known.highest()
	if position == 0 {
		c, err := f.checkpoints.get(ctx)
		if err != nil {
			return fmt.Errorf("fence: %w", err)
		}
		position = c.Highest()
	}
	if _, err := f.newest(ctx, position); err != nil {
		return err
	}
	f.fits.Store(connection)
	return nil
}

func (f *Fence) checkLength() error {
	if short := f.short.Load(); short != nil {
		return *short
	}
	return nil
}

// WaitAll returns once the read models reflect every event, of any owner, that was
// acknowledged before the call. A caller must not answer "unknown token" without it. It
// waits for the slowest projector. Callers that arrive together share one question to the
// log, which is put after all of them arrived. Its errors are those of WaitOwner.
func (f *Fence) WaitAll(ctx context.Context) error {
	_, err := f.WaitAllHead(ctx)
	return err
}

// WaitAllHead is WaitAll, and returns a Head without a sequence.
func (f *Fence) WaitAllHead(ctx context.Context) (Head, error) { return f.waitHead(ctx, everybody, "") }

// Wait returns once the read models hold the log up to seq, of all owners.
func (f *Fence) Wait(ctx context.Context, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, f.opts.Timeout)
	defer cancel()
	return f.wait(ctx, goal{everybody, seq})
}

// Position is how far the read models are with all owners, as far as this
// process knows.
func (f *Fence) Position() uint64 { return f.known.known(goal{partition: everybody}) }

func (f *Fence) wait(ctx context.Context, g goal) error {
	w, reached := f.known.await(g)
	if reached {
		f.metrics.passed.Inc()
		return nil
	}
	start := time.Now()
	if f.opts.OnWait != nil {
		f.opts.OnWait(g.seq)
	}
	f.metrics.waiting.Inc()
	defer f.metrics.waiting.Dec()
	for !reached {
		if w != nil {
			f.waitToBeTold(ctx, w)
		} else {
			reached = f.lookForMyself(ctx, g)
		}
		if !reached {
			if ctx.Err() != nil {
				return f.expired(ctx, g)
			}
			w, reached = f.known.await(g)
		}
	}
	f.metrics.waits.Observe(time.Since(start).Seconds())
	return nil
}

func (f *Fence) waitToBeTold(ctx context.Context, w *waiter) {
	select {
	case <-w.wake:
	case <-ctx.Done():
		f.known.forget(w)
	}
}

// lookForMyself reads the checkpoint while the listener is down. The result counts
// only for the callers that waited for this very reading, and for no later ones.
func (f *Fence) lookForMyself(ctx context.Context, g goal) (reached bool) {
	is, err := f.checkpoints.get(ctx)
	if err == nil && g.reach(is.Vector) >= g.seq {
		return true
	}
	eventlog.Pause(ctx, recheck) // also where the database does not answer: it may come back
	return false
}

// expired tells a deadline, which is ErrBehind, from a caller that left.
func (f *Fence) expired(ctx context.Context, g goal) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	f.metrics.expired.Inc()
	if away := f.away.Load(); away != nil {
		return fmt.Errorf("%w, or can't be reached: %w", ErrBehind, *away)
	}
	return fmt.Errorf("%w: waited for sequence %d, at %d", ErrBehind, g.seq, f.known.known(g))
}
