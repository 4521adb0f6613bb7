package signin_test

import (
	"crypto/ed25519"
	"sync"
	"testing"

	"github.com/mr-tron/base58"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/services/signin"
	"github.com/memory-ledger/ledger/services/test/heap"
)

// TestAMillionChallenges: unanswered challenges cost no memory and no storage, and do
// not prevent a sign-in.
func TestAMillionChallenges(t *testing.T) { // not in parallel: it measures the process's memory
	f := newFrontDesk(t)
	live, bytes := heap.Live(), f.stored(t)
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key := base58.Encode(public)
	var group sync.WaitGroup
	for _, signIn := range []*signin.SignIn{f.core, f.extension} {
		group.Go(func() {
			for range 500_000 {
				if _, err := signIn.Challenge(key, signin.PurposeSignIn); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if grown := heap.Live() - live; grown > 1<<20 {
		t.Errorf("memory grew by %d bytes", grown)
	}
	if now := f.stored(t); now != bytes {
		t.Errorf("storage grew from %d to %d bytes", bytes, now)
	}
	for _, signIn := range []*signin.SignIn{f.core, f.extension} {
		verifies(t, signIn, challenge(t, signIn))
	}
}

// stored returns how many bytes the server stores.
func (f *frontDesk) stored(t *testing.T) (bytes uint64) {
	t.Helper()
	streams := f.js.ListStreams(t.Context())
	for info := range streams.Info() {
		bytes += info.State.Bytes
	}
	if err := streams.Err(); err != nil {
		t.Fatal(err)
	}
	return bytes
}

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
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.Bytes
}
