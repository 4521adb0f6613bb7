package signin_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/services/signin"
)

// TestAFullBucketRefusesForAWhile: sign-ins above the bound get 503, spend nothing, and
// succeed once there is room. No remembered use is dropped for them.
func TestAFullBucketRefusesForAWhile(t *testing.T) {
	t.Parallel()
	f := newFrontDesk(t)
	first, second := challenge(t, f.core), challenge(t, f.core)
	verifies(t, f.core, first)
	full := signin.NonceStreamConfig(1)
	full.MaxBytes = int64(f.bucketBytes(t)) + 16
	resize := func(cfg jetstream.StreamConfig) {
		if _, err := f.js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	resize(full)
	undecided(t, f.core, second)
	refuses(t, f.core, first, "nonce was used")
	resize(signin.NonceStreamConfig(1))
	verifies(t, f.core, second)
}

// bucketBytes returns the size of the bucket of used nonces.
func (f *frontDesk) bucketBytes(t *testing.T) uint64 {
	t.Helper()
	stream, err := f.js.Stream(t.Context(), signin.NonceStream)
	must(t, err)
	return stream.CachedInfo().State.Bytes
}
