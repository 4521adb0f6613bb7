package eventlog

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
)

// TestARefusedCopySaysNothingOfTheFirst: an earlier copy of a message may be stored, whatever
// the answer to a later one is.
func TestARefusedCopySaysNothingOfTheFirst(t *testing.T) {
	t.Parallel()
	var copies atomic.Int64
	log := scriptedAt(t, withoutStreams(t), "ledger.>", func(m *nats.Msg) {
		if copies.Add(1) > 1 {
			check(t, m.Respond([]byte(`{"error":{"code":503,"err_code":10008}}`)))
		}
	})
	log.silent.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), attemptTimeout)
	defer cancel()
	if _, err := log.Append(ctx, anAppend()); !errors.Is(err, ErrUncertain) || copies.Load() < 2 {
		t.Errorf("sent %d times: %v", copies.Load(), err)
	}
}
