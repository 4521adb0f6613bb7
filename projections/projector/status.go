package projector

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// State of a projector; see the package's diagram.
type State string

const (
	Starting  State = "starting"
	Standby   State = "standby"
	Replaying State = "replaying"
	Live      State = "live"
	Broken    State = "failed"
	Stopped   State = "stopped"
)

var ErrNotReady = errors.New("projector not ready")

// Status is the state and the position of a projector.
type Status struct {
	State    State
	Position uint64 // newest sequence that is committed
	Head     uint64 // newest sequence of the log, as last seen
	// Lag is the time since the projector saw a head of the log that it has not applied
	// yet.
	Lag time.Duration
	Err error // why it is not working, nil if it is
}

// Works reports whether the projector is active: not standing by, not failed.
func (s Status) Works() bool { return s.State == Live || s.State == Replaying }

// progress is the runner's state, guarded by its mutex.
type progress struct {
	state    State
	position uint64
	head     uint64
	err      error
	headErr  error // why the log's head can't be read

	// mark is the oldest head seen that is not applied yet.
	mark   uint64
	markAt time.Time
}

func (r *Runner) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.state
	status := Status{State: p.state, Position: p.position, Head: max(p.head, p.position), Err: p.err}
	if status.State == "" {
		status.State = Starting
	}
	if status.Err == nil {
		status.Err = p.headErr
	}
	if p.mark > p.position {
		status.Lag = time.Since(p.markAt)
	}
	return status
}

// Ready returns nil while a projector keeps the read models up to date. If this projector
// stands by, that is another one.
func (r *Runner) Ready() error {
	s := r.Status()
	switch {
	case s.Err != nil:
		return fmt.Errorf("%w: %w", ErrNotReady, s.Err)
	case s.State == Standby:
		return nil
	case s.State == Replaying:
		return fmt.Errorf("%w: replaying the log, at %d of %d", ErrNotReady, s.Position, s.Head)
	case s.State != Live:
		return fmt.Errorf("%w: %s", ErrNotReady, s.State)
	case s.Lag > r.cfg.ReadyLag:
		return fmt.Errorf("%w: %s behind the log, at %d of %d", ErrNotReady, s.Lag.Round(time.Second), s.Position, s.Head)
	}
	return nil
}

func (r *Runner) setState(state State, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.state, r.state.err = state, err
}

// fail keeps the error in the status until the projector works again.
func (r *Runner) fail(err error) {
	r.metrics.failures.Inc()
	r.setState(Broken, err)
}

// standBy notes that another projector works. This projector does not know the other
// one's lag. The lag and the log errors of this projector's last session no longer count.
func (r *Runner) standBy() {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.state
	p.state, p.err, p.headErr = Standby, nil, nil
	p.head, p.mark = p.position, 0
}

// begin notes the start position of a session. The position may be lower than before,
// because the database may have been restored. The lag of an earlier session continues.
func (r *Runner) begin(position, head uint64, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.state
	p.position, p.head = position, head
	if p.mark > head {
		p.mark = 0 // of a log that was replaced
	}
	p.see(head, now)
	// After a failure, keep the error until a slice is applied or nothing is left to do.
	if p.state = Replaying; position >= head {
		p.state, p.err = Live, nil
	}
}

func (r *Runner) applied(position uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.state
	p.position, p.err = position, nil
	if p.state == Replaying && position >= p.head {
		p.state = Live
	}
}

// observe notes the log's head, or the error of reading it.
func (r *Runner) observe(head uint64, err error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.state
	if p.headErr = err; err != nil {
		return
	}
	p.head = max(p.head, head)
	p.see(head, now)
}

// see marks a head, unless an older marked head is not applied yet.
func (p *progress) see(head uint64, now time.Time) {
	if p.mark <= p.position {
		p.mark, p.markAt = head, now
	}
}

type metrics struct {
	slices   prometheus.Counter
	records  prometheus.Counter
	failures prometheus.Counter
	apply    prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer, r *Runner) *metrics {
	register := promauto.With(registerer)
	gauge := func(name, help string, value func(Status) float64) {
		register.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(r.Status()) })
	}
	gauge("ledger_projector_lag_messages", "Messages of the log that are not applied yet.", func(s Status) float64 { return float64(s.Head - s.Position) })
	gauge("ledger_projector_lag_seconds", "How long ago the log held a message that is not applied yet.", func(s Status) float64 { return s.Lag.Seconds() })
	gauge("ledger_projector_active", "1 where this projector works, 0 where it stands by or failed.", func(s Status) float64 {
		if s.Works() {
			return 1
		}
		return 0
	})
	return &metrics{
		slices:   register.NewCounter(prometheus.CounterOpts{Name: "ledger_projector_slices_total", Help: "Slices of the log committed to the read models."}),
		records:  register.NewCounter(prometheus.CounterOpts{Name: "ledger_projector_messages_total", Help: "Messages of the log committed to the read models."}),
		failures: register.NewCounter(prometheus.CounterOpts{Name: "ledger_projector_failures_total", Help: "Times the projector failed and started again."}),
		apply: register.NewHistogram(prometheus.HistogramOpts{
			Name: "ledger_projector_apply_seconds", Help: "Time to apply and commit one slice.",
			Buckets: prometheus.ExponentialBuckets(0.0002, 2, 16),
		}),
	}
}
