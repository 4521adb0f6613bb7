package eventlog

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestAFullDiskIsSpokenOf: a full disk is reported until a message is stored, or until
// diskMemory has passed.
func TestAFullDiskIsSpokenOf(t *testing.T) {
	t.Parallel()
	var d disk
	now := time.Now()
	full := func(want bool, at time.Time) {
		t.Helper()
		if err := d.check(at); (err != nil) != want || want && !errors.Is(err, ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	}
	d.note(nats.ErrConnectionClosed, now)
	d.note(&jetstream.APIError{ErrorCode: jetstream.JSErrCodeStreamWrongLastSequence}, now)
	full(false, now)
	for _, failure := range []error{nats.ErrTimeout, &jetstream.APIError{ErrorCode: errCodeStoreFailed}} {
		d.note(failure, now)
		full(true, now)
		d.note(nats.ErrConnectionClosed, now)
		full(true, now.Add(diskMemory-1))
		full(false, now.Add(diskMemory))
		d.note(nil, now)
		full(false, now)
	}
}
