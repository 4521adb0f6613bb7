package keystore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/events/verify/leaf"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/keystore"
)

// Forgetting leaves nothing of a key in the server's files, not even of the newest key,
// which the server also holds in memory. All other keys stay.
func TestForgettingErases(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := natstest.Start(t, natstest.Dir(dir))
	js := connect(t, server)
	bucket := bucketIn(t, js)
	owners := newOwners(20)
	wrapped := map[int][]byte{}
	for i, o := range owners {
		makeKey(t, openStore(t, bucket, keystore.MasterKey{1}), o)
		entry, err := bucket.Get(t.Context(), string(o))
		must(t, err)
		wrapped[i] = entry.Value()
		if len(natstest.FilesHolding(t, dir, wrapped[i])) == 0 {
			t.Fatal("no file holds a key that is there: the test looks for the wrong thing")
		}
	}
	gone := map[int]bool{0: true, 7: true, 19: true}
	for i := range gone {
		if existed, err := keystore.Forget(t.Context(), js, owners[i], false); err != nil || !existed {
			t.Errorf("forget %d: %v, %v", i, existed, err)
		}
		if existed, err := keystore.Forget(t.Context(), js, owners[i], false); err != nil || existed {
			t.Errorf("forget %d again: %v, %v", i, existed, err)
		}
	}
	check := func(bucket jetstream.KeyValue) {
		t.Helper()
		for i, o := range owners {
			_, err := openStore(t, bucket, keystore.MasterKey{1}).Find(t.Context(), o)
			if gone[i] != errors.Is(err, keystore.ErrNoKey) || (!gone[i] && err != nil) {
				t.Errorf("owner %d: %v", i, err)
			}
			if files := natstest.FilesHolding(t, dir, wrapped[i]); gone[i] != (len(files) == 0) {
				t.Errorf("the key of owner %d, forgotten: %v, is in %q", i, gone[i], files)
			}
		}
	}
	check(bucket)
	// The same after a restart.
	must(t, server.Stop(t.Context()))
	js = connect(t, natstest.Start(t, natstest.Dir(dir)))
	check(bucketIn(t, js))
}

// between is a JetStream that calls meanwhile before it publishes a message.
type between struct {
	jetstream.JetStream
	meanwhile func()
}

func (b *between) PublishMsg(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if happens := b.meanwhile; happens != nil {
		b.meanwhile = nil
		happens()
	}
	return b.JetStream.PublishMsg(ctx, msg, opts...)
}

func secretOf(t *testing.T, key *keystore.OwnerKey) leaf.Secret {
	t.Helper()
	secret, err := key.LeafSecret(events.SaltOwner, nil)
	must(t, err)
	return secret
}

// TestDestroySparesLaterKeys: destroying a key from before an erasure spares a key made
// after it, no matter when that one is made. Destroying any key leaves none.
func TestDestroySparesLaterKeys(t *testing.T) {
	t.Parallel()
	js := connect(t, natstest.Start(t))
	bucketIn(t, js)
	s := openPausing(t, js, atOnce)
	for name, c := range map[string]struct {
		before int
		spared bool
	}{"one from before": {1, true}, "any key": {keystore.AnyKey, false}} {
		owner := logtest.Owner()
		makeKey := func(erasures int) *keystore.OwnerKey {
			key, err := openPausing(t, js, atOnce).FindOrCreate(t.Context(), owner, erasures, nil)
			if err != nil {
				t.Error(name, err)
			}
			return key
		}
		check := func(want *keystore.OwnerKey) {
			t.Helper()
			got, err := openPausing(t, js, atOnce).Find(t.Context(), owner)
			switch {
			case want == nil && !errors.Is(err, keystore.ErrForgotten):
				t.Errorf("%s: %v", name, err)
			case want != nil && (err != nil || secretOf(t, got) != secretOf(t, want)):
				t.Errorf("%s: not the key that was to be spared: %v", name, err)
			}
		}
		makeKey(0)
		var later *keystore.OwnerKey
		erased := &between{js, func() { later = makeKey(1) }} // the old key is erased, but its mark is not published yet
		for range 2 {
			if err := s.Destroy(t.Context(), erased, owner, c.before); err != nil {
				t.Error(name, err)
			}
			if !c.spared {
				later = nil
			}
			check(later)
		}
		makeKey(1)
		if err := s.Destroy(t.Context(), js, owner, 2); err != nil {
			t.Error(name, err)
		}
		check(nil)
	}
}
