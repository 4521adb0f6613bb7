package eventlog

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// diskMemory is how long a failure to store is reported, if nothing was stored since.
// It ends, so that a client that sends requests only to a healthy service tries again.
const diskMemory = 30 * time.Second

// disk remembers that the server could not write a message to its file. The server
// reports that, or does not answer at all. Reads may still work. A server that has met
// a full disk keeps failing when there is room again, until it is restarted
// (nats-server 2.15).
type disk struct{ failed atomic.Int64 } // in Unix nanoseconds; 0: it stores

// note takes in how an attempt to store ended.
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
	return fmt.Errorf("%w: the server did not store what it was sent; is its disk full? Give it room and start it anew", ErrUnavailable)
}

// Storing returns an error where the server could not store a message a moment ago,
// and has stored none since.
func (l *JetStream) Storing() error { return l.disk.check(time.Now()) }
