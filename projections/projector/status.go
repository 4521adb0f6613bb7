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

// ErrNotReady is wrapped by every error of Ready.
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

// Status returns the projector's current status.
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

// applied notes a commit.
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
