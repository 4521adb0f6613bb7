// Package projector follows the log and keeps tables up to date: the read models, and
// the anchorer's owners.
//
//	starting ──> standby ──> replaying ──> live
//	   ^            another      behind       │
//	   │            projector    the head     │
//	   │            is active                 │
//	   └────── failed <── any error ──────────┘        stopped: ctx ended
//
// The log arrives in slices: contiguous runs of up to a few thousand messages. A slice is
// one message of a watermill Router over [SliceSubscriber]. The router's middlewares recover
// from panics, bound the time, measure, trace, and end the session at an error. One
// transaction commits the checkpoint and the rows that all projections make of a slice, so
// every message takes effect exactly once. After a crash at any point the rows and the
// checkpoint agree, and the projector follows the log from the checkpoint on.
//
// Every failure is handled alike. The projector drops the connection, which releases the
// lock and ends the open transaction. After a pause it starts again from the checkpoint.
// It retries a failing slice forever, and [Runner.Ready] returns the reason. It skips no
// message. Because it releases the lock between tries, a standby of a newer build can
// take over. If the tables do not fit the log, the projector also retries forever, until
// an operator restores the log or rebuilds the tables. [Config.Renew] empties tables that
// are only a cache. The projector makes missing tables again.
package projector

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/schema"
)

var (
	// ErrAheadOfLog: the read models hold messages that the log does not have. Going on
	// would mix two histories, so the projector applies nothing until an operator
	// replaces the log or the read models.
	ErrAheadOfLog = errors.New("the read models are ahead of the log")
	// ErrOtherLog: the log's message at the checkpoint is not the message that was
	// projected. As with ErrAheadOfLog, the projector applies nothing.
	ErrOtherLog = errors.New("the read models come from another log")
	// ErrFenced: another process moved the checkpoint.
	ErrFenced = errors.New("another projector moved the checkpoint")
)

const (
	maxSliceBytes   = 8 << 20     // of payloads, at which a slice stops growing
	applyTimeout    = time.Minute // how long one slice may take
	watchInterval   = time.Second
	standbyInterval = 250 * time.Millisecond
)

// Log is the part of the log that the projector uses.
type Log interface {
	eventlog.Reader
	eventlog.Follower
}

// Config of a projector. Pool, Log and Projections are required.
type Config struct {
	// Pool names the database and schema. The projector opens its own connection outside
	// the pool.
	Pool *pgxpool.Pool
	Log  Log

	// Name names the projector in log lines. Empty means "projector".
	Name string
	// Schema holds the tables. Empty means the pool's schema.
	Schema string
	// Tables makes and checks the tables. nil means the migrations of the read models.
	Tables Tables

	// Of several projectors of a schema, one works and the others stand by.
	Projections  []Projection
	Logger       *slog.Logger          // nil means slog.Default()
	Registerer   prometheus.Registerer // nil means no metrics
	Tracer       trace.Tracer          // nil means no traces
	SliceRecords int                   // maximum records in a slice; 0 means 2000
	DrainTimeout time.Duration         // how long a slice may take after ctx ends; 0 means 5 s
	MinBackoff   time.Duration         // pause after a first failure; 0 means 100 ms
	MaxBackoff   time.Duration         // longest pause; 0 means 5 s
	ReadyLag     time.Duration         // the largest lag that is still ready; 0 means 30 s
	// Only selects the subjects whose messages are decoded. nil means all.
	Only func(events.Subject) bool
	// Work, if set, runs beside each session. It starts when the tables hold everything
	// that the log held at the session's start, and runs until the session ends. Its
	// error ends the session.
	Work func(context.Context) error
	// Renew, if set, receives the error that ended a session. If it returns steps, the
	// projector commits them together with a checkpoint at sequence 0, and projects the
	// log again from its first message.
	Renew func(error) []Step
	// Turn, if set, is called when the projector begins to work, or to stand by.
	Turn func(ctx context.Context, working bool)
	// Applied, if set, is called after each commit with the newest sequence that is
	// projected. It must not block.
	Applied func(position uint64)
}

func (c *Config) setDefaults() {
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Name = cmp.Or(c.Name, "projector")
	if c.Schema == "" {
		c.Schema = schema.Name(c.Pool)
	}
	if c.Tables == nil {
		c.Tables = migrations{c.Pool, c.Logger}
	}
	if c.Turn == nil {
		c.Turn = func(context.Context, bool) {}
	}
	c.SliceRecords = cmp.Or(c.SliceRecords, 2000)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 5*time.Second)
	c.MinBackoff = cmp.Or(c.MinBackoff, 100*time.Millisecond)
	c.MaxBackoff = max(c.MinBackoff, cmp.Or(c.MaxBackoff, 5*time.Second))
	c.ReadyLag = cmp.Or(c.ReadyLag, 30*time.Second)
}

type Runner struct {
	cfg     Config
	metrics *metrics

	mu    sync.Mutex
	state progress
}

// New returns a projector that does nothing until Run.
func New(cfg Config) *Runner {
	cfg.setDefaults()
	r := &Runner{cfg: cfg}
	r.metrics = newMetrics(cfg.Registerer, r)
	return r
}

// Run projects until ctx ends. Then it lets the slice in flight commit and returns nil.
// While the database or the log is unreachable, it waits. It also waits while the tables
// do not fit the log: an operator may restore the log or rebuild the read models. The
// only error that it returns is schema.ErrNewer.
func (r *Runner) Run(ctx context.Context) error {
	backoff, limit := r.cfg.MinBackoff, r.cfg.SliceRecords
	for {
		before, begun := r.Status().Position, time.Now()
		err := r.session(ctx, limit)
		switch {
		case ctx.Err() != nil:
			r.setState(Stopped, nil)
			return nil
		case errors.Is(err, schema.ErrNewer):
			r.fail(err)
			return err
		}
		position := r.Status().Position
		r.fail(err)
		if position > before || time.Since(begun) > r.cfg.MaxBackoff {
			backoff = r.cfg.MinBackoff // earlier trouble has passed
		}
		switch {
		case position > before:
			limit = r.cfg.SliceRecords
		case errors.As(err, new(sliceError)):
			// With shorter slices, the messages before a bad message can be applied, and
			// the error then names the bad message alone.
			limit = max(1, limit/8)
		}
		// Half of the pause is random, so that two projectors that fail at the same time
		// do not retry in step.
		wait := backoff/2 + rand.N(backoff/2+1)
		if errors.Is(err, ErrFenced) { // usually by a rebuild, which is normal
			r.cfg.Logger.Warn(r.cfg.Name+" starts again", "because", err, "pause", wait)
		} else {
			r.cfg.Logger.Error(r.cfg.Name+" failed, will try again", "error", err, "pause", wait)
		}
		if !eventlog.Pause(ctx, wait) {
			r.setState(Stopped, nil)
			return nil
		}
		backoff = min(2*backoff, r.cfg.MaxBackoff)
	}
}
