// Package fence makes reads never stale. It delays a read until the read models reflect
// every event that was acknowledged before the read's request arrived, on every replica.
//
// A fence reads from the log the newest sequence that matters, and waits until the
// projection has reached it. The log answers linearizably, so that sequence covers every
// event that was acknowledged before. (On a cluster, this holds while its leader is known to
// be the only one; see package eventlog. The fence refuses a sequence that is older than the
// read models' position.)
// The projector announces each commit. A fence listens on its own connection and wakes
// the callers that waited for that commit. A wait ends at the caller's deadline or the
// fence's timeout with [ErrBehind]. HTTP layers answer it with 503 and Retry-After.
//
// The fence trusts a position only while the listener is connected: a database that was
// restored or replaced may hold less than this process has seen. A cache stores the
// [Head] of each read. The Head differs after the read models were exchanged.
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
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/coalesce"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/tracing"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
)

// ErrBehind: the read models did not catch up in time. The request itself is fine; answer
// 503 with Retry-After.
var ErrBehind = errors.New("read models are behind the log")

// ErrLogShort: the log is not the source of the read models, or has lost its end, or the
// server that answers for the log does not know its end. Answer 503: show nothing from
// the read models, and append nothing.
var ErrLogShort = errors.New("the log is shorter than the read models know it")

// Options of a fence. The zero value works.
type Options struct {
	Timeout    time.Duration         // longest wait, even if the caller's deadline is later; 0 means 5 s
	Poll       time.Duration         // how often the checkpoint is read, beside the announcements; 0 means 1 s
	Logger     *slog.Logger          // nil means slog.Default()
	Registerer prometheus.Registerer // nil means no metrics
	// Connection returns a new number whenever another server may answer for the log. nil
	// means that the same server always answers.
	Connection func() uint64
	// OnExchange, if set, is called when the read models were exchanged, before any Head
	// reflects it. A cache must then drop everything that it read from the old ones,
	// which may have been wrong. OnExchange must not block.
	OnExchange func()
}

// Fence delays reads until the read models have caught up.
type Fence struct {
	pool    *pgxpool.Pool
	log     eventlog.Reader
	opts    Options
	channel string
	metrics *metrics

	known       tracker
	short       atomic.Pointer[error] // ErrLogShort, if the listener found it
	fits        atomic.Uint64         // the connection on which the log was last long enough; 0 before that
	away        atomic.Pointer[error] // why the listener is down; nil while it is connected
	heads       coalesce.Calls[uint64]
	checkpoints coalesce.Calls[projector.Checkpoint]
}

// New returns a fence over the read models in the pool's schema. The fence works at once.
// While Run runs, waits are woken promptly and cost no queries.
func New(pool *pgxpool.Pool, log eventlog.Reader, opts Options) *Fence {
	opts.Timeout = cmp.Or(max(0, opts.Timeout), 5*time.Second)
	opts.Poll = cmp.Or(max(0, opts.Poll), time.Second)
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	if opts.Connection == nil {
		opts.Connection = func() uint64 { return 1 }
	}
	f := &Fence{pool: pool, log: log, opts: opts, channel: schema.Channel(schema.Name(pool)), metrics: newMetrics(opts.Registerer)}
	f.heads.Fetch = log.Head
	f.checkpoints.Fetch = func(ctx context.Context) (projector.Checkpoint, error) { return projector.ReadCheckpoint(ctx, pool) }
	return f
}

// Head describes the read models after a wait. If a later wait returns an equal Head that
// is Known, data that was read for the owner after the first wait is still current.
type Head struct {
	// Seq is the log's newest sequence, if the read models hold it; 0 means unknown.
	Seq uint64
	// Tables counts how often this process has seen the read models exchanged. Data from
	// earlier read models may be wrong, even if it never changes.
	Tables uint64
}

// Known reports whether an equal Head means that nothing has changed.
func (h Head) Known() bool { return h.Seq != 0 }

// Tables returns the Tables of a Head made now.
func (f *Fence) Tables() uint64 { return f.known.tables.Load() }

// Before reports whether h is known to be older than other.
func (h Head) Before(other Head) bool {
	return h.Tables < other.Tables || h.Tables == other.Tables && h.Seq < other.Seq
}

// WaitOwner returns once the read models reflect every event of the owner that was
// acknowledged before the call, including events about the chain. An empty owner stands for
// all; then the Head has no sequence. Errors: ErrBehind, ErrLogShort, the log's, ctx's.
func (f *Fence) WaitOwner(ctx context.Context, owner events.Owner) (Head, error) {
	ctx, cancel := context.WithTimeout(ctx, f.opts.Timeout)
	defer cancel()
	ctx, span := tracing.Start(ctx, "fence")
	defer span.End()
	if err := f.checkLength(); err != nil {
		return Head{}, err
	}
	h := Head{Tables: f.Tables()} // before any wait
	ofOwner := owner != ""
	position, live := f.known.position()
	if !live {
		position = 0 // the database may have been restored, so the position proves nothing
	}
	seq, err := f.newest(ctx, position)
	if err != nil {
		return Head{}, err
	}
	if ofOwner {
		// Usually the read models hold the whole log. Then it is enough to read the log's
		// newest sequence, and concurrent callers share that read. Only while writes are
		// in progress does the fence ask the log about this owner.
		if f.known.reached(seq) {
			f.metrics.passed.Inc()
			h.Seq = seq
			return h, nil
		}
		if seq, err = f.log.OwnerHead(ctx, events.FamilyAny, owner); err != nil {
			return Head{}, fmt.Errorf("fence: %w", err)
		}
	}
	return h, f.wait(ctx, seq)
}

// newest reads the log's newest sequence. It returns ErrLogShort if that is below
// position, which the read models had reached before.
func (f *Fence) newest(ctx context.Context, position uint64) (uint64, error) {
	head, err := f.heads.Get(ctx)
	if err == nil && head < position {
		head, err = eventlog.HeadHolding(ctx, f.log, position)
	}
	if err == nil {
		err = lengthError(position, head)
	}
	if err != nil {
		return 0, fmt.Errorf("fence: %w", err)
	}
	return head, nil
}

// CheckLog returns ErrLogShort if the log is older than the last known position of the
// read models: then nothing must be appended to the log. It asks the log only when
// another log may answer: at first, and after each lost connection. The listener detects
// a log that was exchanged behind an open connection. Errors: ErrLogShort, the log's, and
// at first the database's.
func (f *Fence) CheckLog(ctx context.Context) error {
	connection := f.opts.Connection()
	if err := f.checkLength(); err != nil || f.fits.Load() == connection {
		return err
	}
	position, _ := f.known.position()
	if position == 0 {
		c, err := f.checkpoints.Get(ctx)
		if err != nil {
			return fmt.Errorf("fence: %w", err)
		}
		position = c.Seq
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
// acknowledged before the call. A caller must not answer "unknown token" without it. Callers
// that arrive together share one read of the log, which starts after all of them arrived. Its
// errors are those of WaitOwner.
func (f *Fence) WaitAll(ctx context.Context) error {
	_, err := f.WaitOwner(ctx, "")
	return err
}

// Position returns the newest sequence that is projected, as far as this process knows.
func (f *Fence) Position() uint64 {
	position, _ := f.known.position()
	return position
}

func (f *Fence) wait(ctx context.Context, seq uint64) error {
	changed, reached := f.known.await(seq)
	if reached {
		f.metrics.passed.Inc()
		return nil
	}
	start := time.Now()
	for !reached {
		if changed == nil {
			reached = f.lookForMyself(ctx, seq)
		} else {
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
		if !reached {
			if ctx.Err() != nil {
				return f.expired(ctx, seq)
			}
			changed, reached = f.known.await(seq)
		}
	}
	f.metrics.waits.Observe(time.Since(start).Seconds())
	return nil
}

// lookForMyself reads the checkpoint while the listener is down. The result counts only
// for the callers that waited for this read, not for later callers.
func (f *Fence) lookForMyself(ctx context.Context, seq uint64) (reached bool) {
	is, err := f.checkpoints.Get(ctx)
	if err == nil && is.Seq >= seq {
		return true
	}
	eventlog.Pause(ctx, 20*time.Millisecond) // pause even if the database does not answer: it may recover
	return false
}

// expired returns ErrBehind after a deadline, and ctx's error if the caller left.
func (f *Fence) expired(ctx context.Context, seq uint64) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	f.metrics.expired.Inc()
	if away := f.away.Load(); away != nil {
		return fmt.Errorf("%w, or can't be reached: %w", ErrBehind, *away)
	}
	position, live := f.known.position()
	if !live {
		return fmt.Errorf("%w: waited for sequence %d, and no listener knows their position", ErrBehind, seq)
	}
	return fmt.Errorf("%w: waited for sequence %d, at %d", ErrBehind, seq, position)
}

type metrics struct {
	passed   prometheus.Counter
	waits    prometheus.Histogram
	expired  prometheus.Counter
	backward prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	register := promauto.With(registerer)
	counter := func(name, help string) prometheus.Counter {
		return register.NewCounter(prometheus.CounterOpts{Name: "ledger_fence_" + name, Help: help})
	}
	return &metrics{
		passed:   counter("passed_total", "Reads that found the read models caught up."),
		expired:  counter("expired_total", "Reads that gave up waiting."),
		backward: counter("backward_total", "Times the checkpoint was found behind what was known."),
		waits: register.NewHistogram(prometheus.HistogramOpts{
			Name: "ledger_fence_wait_seconds", Help: "How long reads waited that had to.",
			Buckets: prometheus.ExponentialBuckets(0.0002, 2, 16),
		}),
	}
}
