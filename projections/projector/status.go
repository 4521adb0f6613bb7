package projector

import (
	"errors"
	"fmt"
	"time"
)

// State of a projector; see the package's diagram.
type State string

// The states.
const (
	Starting  State = "starting"
	Standby   State = "standby"
	Replaying State = "replaying"
	Live      State = "live"
	Broken    State = "failed"
	Stopped   State = "stopped"
)

// ErrNotReady is the class of what Ready returns.
var ErrNotReady = errors.New("projector not ready")

// Status is where a projector is.
type Status struct {
	State    State
	Position uint64 // newest sequence up to which its partitions are committed
	Head     uint64 // newest sequence of the log, as last seen
	// Lag is how long ago the log held a message that is not applied yet.
	Lag time.Duration
	Err error // why it is not working, nil if it is
}

// Works reports whether the projector works, and neither stands by nor failed.
func (s Status) Works() bool { return s.State == Live || s.State == Replaying }

// progress is what the runner knows of itself, under its mutex.
type progress struct {
	state    State
	position uint64
	highest  uint64 // newest sequence that any of its partitions is committed up to
	head     uint64
	err      error
	headErr  error // the log does not answer

	// mark is the oldest head that was seen and is not applied yet.
	mark   uint64
	markAt time.Time
}

// Status returns where the projector is now.
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

// Ready returns nil while the read models are kept up to date, by this
// projector or, where this one is the standby, by another.
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

// fail keeps the reason in sight until work goes on.
func (r *Runner) fail(err error) {
	r.metrics.failures.Inc()
	r.setState(Broken, err)
}

// standBy notes that another projector works. This one does not know how far behind that
// one is, and the lag and the log's errors of its own last session no longer count.
func (r *Runner) standBy() {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.state
	p.state, p.err, p.headErr = Standby, nil, nil
	p.head, p.mark = p.position, 0
}

// begin notes the position that a session starts from, which may be lower
// than what this process saw: the database may have been restored. The lag of an earlier
// session goes on.
func (r *Runner) begin(position, highest, head uint64, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.state
	p.position, p.highest, p.head = position, highest, head
	p.see(head, now)
	// A session that follows a failure keeps the reason until a slice got
	// through, or until nothing is left to do.
	if p.state = Replaying; position >= head {
		p.state, p.err = Live, nil
	}
}

// applied notes a commit.
func (r *Runner) applied(position, highest uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.state
	p.position, p.highest, p.err = position, highest, nil
	if p.state == Replaying && position >= p.head {
		p.state = Live
	}
}

func (r *Runner) highest() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.highest
}

// observe notes the log's head, or that it could not be had.
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

// see marks a head, unless an older one is marked and not applied yet.
func (p *progress) see(head uint64, now time.Time) {
	if p.mark <= p.position {
		p.mark, p.markAt = head, now
	}
}
