package eventlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrDamaged: the log's server can't return a message that it acknowledged. Only damage
// loses a message.
var ErrDamaged = errors.New("the log is damaged")

// cure is what an operator can do about damage.
const cure = "restore the log from a backup, or on a cluster refill the damaged node from the others; `ledger verify --replicas` says which node it is"

// gap returns the ErrGap of a reader that received a message other than the next one.
func gap(expected, got uint64) error {
	if got < expected {
		return fmt.Errorf("%w: expected sequence %d, got %d", ErrGap, expected, got)
	}
	return &GapError{expected, got}
}

// GapError reports that a server skipped the messages from sequence Expected up to, but
// not including, Got. It is ErrGap and ErrDamaged.
type GapError struct{ Expected, Got uint64 }

func (e *GapError) Error() string {
	return fmt.Sprintf("%v: expected sequence %d, got %d; the log's server can't read sequence %d from its disk, or lost it: %s",
		ErrGap, e.Expected, e.Got, e.Expected, cure)
}

func (*GapError) Is(target error) bool { return target == ErrGap || target == ErrDamaged }

// damage remembers the message that the server could not return to a reader of this
// process.
type damage struct {
	mu   sync.Mutex
	what error
	// again looks for the message: nil means that it can be read, or that the log, which may
	// have been restored, does not have it.
	again func(context.Context) error
}

// noteGap remembers the error of a read if it is a gap, and returns the error.
func (l *JetStream) noteGap(err error) error {
	var gap *GapError
	if errors.As(err, &gap) {
		l.damage.set(gap, func(ctx context.Context) error {
			_, _, err := l.look(ctx, getRequest{Seq: gap.Expected}, l.reaches(gap.Expected))
			return err
		})
	}
	return err
}

func (d *damage) set(what error, again func(context.Context) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.what, d.again = what, again
}

func (d *damage) newest() (again func(context.Context) error, what error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.again, d.what
}

// Damaged returns an ErrDamaged if the server itself reports missing messages, or if it
// could not return a message to a reader of this process and still can't. It reads only
// that one message. An audit is needed to find damage that no reader has met.
func (l *JetStream) Damaged(ctx context.Context) error {
	info, err := l.info(ctx, everySubject)
	if err != nil {
		return err
	}
	if state := info.State; state.Msgs < state.LastSeq { // nothing is ever deleted
		return fmt.Errorf("%w: its server has %d of %d messages: %s", ErrDamaged, state.Msgs, state.LastSeq, cure)
	}
	again, what := l.damage.newest()
	if what == nil {
		return nil
	}
	if again(ctx) != nil {
		return what
	}
	l.damage.set(nil, nil) // a node was refilled, its disk is back, or the log was restored
	return nil
}

// diskMemory is how long a failure to store is reported, if nothing was stored since.
// The report ends so that a client that sends requests only to a healthy service tries
// again.
const diskMemory = 30 * time.Second

// disk remembers that the server could not write a message to its file. The server
// reports that, or does not answer at all. Reads may still work. After a full disk, the
// server keeps failing even when there is room again, until it is restarted
// (nats-server 2.15).
type disk struct{ failed atomic.Int64 } // in Unix nanoseconds; 0: it stores

// note records the result of an attempt to store.
func (d *disk) note(err error, now time.Time) {
	var api *jetstream.APIError
	switch {
	case err == nil:
		if d.failed.Load() != 0 {
			d.failed.Store(0)
		}
	case errors.Is(err, nats.ErrTimeout), errors.As(err, &api) && api.ErrorCode == errCodeStoreFailed:
		d.failed.Store(now.UnixNano())
	}
}

func (d *disk) check(now time.Time) error {
	failed := d.failed.Load()
	if failed == 0 || now.Sub(time.Unix(0, failed)) >= diskMemory {
		return nil
	}
	return fmt.Errorf("%w: the server did not store what it was sent; is its disk full? Give it room and restart it", ErrUnavailable)
}

// Storing returns an error if the server recently failed to store a message and has
// stored none since.
func (l *JetStream) Storing() error { return l.disk.check(time.Now()) }
