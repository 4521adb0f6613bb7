package keystore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/keystore"
)

var must, errorOf, slow = testkit.Must, testkit.ErrorOf, testkit.Slow

func connect(t *testing.T, server interface{ URL() string }) jetstream.JetStream {
	t.Helper()
	_, js := natstest.Connect(t, server.URL(), nats.NoReconnect())
	return js
}

func newBucket(t *testing.T) jetstream.KeyValue {
	t.Helper()
	return bucketIn(t, connect(t, natstest.Start(t)))
}

func bucketIn(t *testing.T, js jetstream.JetStream) jetstream.KeyValue {
	t.Helper()
	bucket, err := natsconf.CreateBucket(t.Context(), js, keystore.Bucket, 1)
	must(t, err)
	return bucket
}

func TestSealAndOpen(t *testing.T) {
	t.Parallel()
	s := openStore(t, newBucket(t), keystore.MasterKey{1})
	a, b := logtest.Owner(), logtest.Owner()
	if _, err := s.Find(t.Context(), a); !errors.Is(err, keystore.ErrNoKey) {
		t.Fatalf("a key nobody made: %v", err)
	}
	keyA, err := s.FindOrCreate(t.Context(), a, 0, nil)
	must(t, err)
	keyB, err := s.FindOrCreate(t.Context(), b, 0, nil)
	must(t, err)
	for _, content := range []string{"", "x", "a\x00b", strings.Repeat("é", 100_000)} {
		sealed, _ := keyA.Seal(7, "m1", content)
		again, _ := keyA.Seal(7, "m1", content)
		if string(again) == string(sealed) {
			t.Error("two seals of one text are the same")
		}
		if got, err := keyA.Open(2, 7, "m1", sealed); err != nil || got != content {
			t.Errorf("opened %q, %v", got, err)
		}
		if _, err := keyA.Open(2, 7, "m2", sealed); !errors.Is(err, keystore.ErrSealed) {
			t.Errorf("opens for another memory: %v", err)
		}
		if _, err := keyB.Open(2, 7, "m1", sealed); !errors.Is(err, keystore.ErrSealed) {
			t.Errorf("opens for another owner: %v", err)
		}
		for _, i := range []int{0, len(sealed) / 2, len(sealed) - 1} {
			sealed[i] ^= 1
			if _, err := keyA.Open(2, 7, "m1", sealed); !errors.Is(err, keystore.ErrSealed) {
				t.Errorf("opens with byte %d altered: %v", i, err)
			}
			sealed[i] ^= 1
		}
		if _, err := keyA.Open(2, 7, "m1", sealed[:10]); !errors.Is(err, keystore.ErrSealed) {
			t.Errorf("opens when cut: %v", err)
		}
	}
}

// late is a bucket that calls meanwhile between its first answer and the caller.
type late struct {
	jetstream.KeyValue
	meanwhile func()
}

func (l *late) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	entry, err := l.KeyValue.Get(ctx, key)
	if happens := l.meanwhile; happens != nil {
		l.meanwhile = nil
		happens()
	}
	return entry, err
}

// TestWhoIsSecondUsesTheFirstKey: a process that found no key and makes one does not
// replace a key that was made meanwhile, which may have sealed something.
func TestWhoIsSecondUsesTheFirstKey(t *testing.T) {
	t.Parallel()
	for name, marked := range map[string]bool{"as it is made": false, "as its mark is looked for": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			js, owner := connect(t, natstest.Start(t)), logtest.Owner()
			kv := bucketIn(t, js)
			open := func(kv jetstream.KeyValue) *keystore.Store {
				if marked {
					return openMarked(t, js, kv, keystore.MasterKey{1})
				}
				return openStore(t, kv, keystore.MasterKey{1})
			}
			first := open(kv)
			var sealed []byte
			second := open(&late{kv, func() {
				key, err := first.FindOrCreate(t.Context(), owner, 0, nil)
				must(t, err)
				sealed, _ = key.Seal(7, "m", "text")
			}})
			key, err := second.FindOrCreate(t.Context(), owner, 0, nil)
			must(t, err)
			if text, err := key.Open(2, 7, "m", sealed); err != nil || text != "text" {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}

// TestAKeyFromBeforeTheErasure: a sign-in that knows of an erasure does not use a key that
// was just made by a sign-in that does not.
func TestAKeyFromBeforeTheErasure(t *testing.T) {
	t.Parallel()
	kv, owner := newBucket(t), logtest.Owner()
	before := openStore(t, kv, keystore.MasterKey{1})
	after := openWith(t, &late{kv, func() {
		must(t, errorOf(before.FindOrCreate(t.Context(), owner, 0, nil)))
	}}, keystore.Config{Masters: []keystore.Master{keystore.MasterKey{1}}, Pause: atOnce})
	if _, err := after.FindOrCreate(t.Context(), owner, 1, nil); !errors.Is(err, keystore.ErrErased) {
		t.Errorf("got %v", err)
	}
}

// atOnce is a pause that takes no time.
func atOnce(context.Context, time.Duration) bool { return true }

// TestACreationOutlivesWhatWasDestroyed: making a key after another was destroyed takes a
// pause first, and one more for each key that is made and destroyed meanwhile. A crash may
// have prevented the mark.
func TestACreationOutlivesWhatWasDestroyed(t *testing.T) {
	t.Parallel()
	js := connect(t, natstest.Start(t))
	kv := bucketIn(t, js)
	other := openPausing(t, js, atOnce)
	for name, c := range map[string]struct {
		erasures int
		before   bool // a key is made and destroyed first
		during   int  // in how many pauses a key is made and destroyed
		want     int  // pauses
	}{
		"who is new":             {0, false, 0, 0},
		"who erased":             {1, true, 0, 1},
		"whose mark is missing":  {1, false, 0, 1},
		"who was forgotten":      {0, true, 0, 1},
		"who erases again twice": {1, true, 2, 3},
	} {
		owner, pauses := logtest.Owner(), 0
		destroyed := func() {
			if _, err := other.FindOrCreate(t.Context(), owner, 0, nil); err != nil {
				t.Error(name, err)
			}
			if err := other.Destroy(t.Context(), js, owner, keystore.AnyKey); err != nil {
				t.Error(name, err)
			}
		}
		if c.before {
			destroyed()
		}
		s := openPausing(t, js, func(context.Context, time.Duration) bool {
			if _, err := kv.Get(t.Context(), string(owner)); !errors.Is(err, jetstream.ErrKeyNotFound) {
				t.Errorf("%s: the key was made before the pause: %v", name, err)
			}
			if pauses++; pauses <= c.during {
				destroyed()
			}
			return true
		})
		if _, err := s.FindOrCreate(t.Context(), owner, c.erasures, nil); err != nil || pauses != c.want {
			t.Errorf("%s: %d pauses, want %d: %v", name, pauses, c.want, err)
		}
	}
}

// TestAKeyIsDurableBeforeItIsUsed, even if it existed already: the process that made it may
// not have synced it.
func TestAKeyIsDurableBeforeItIsUsed(t *testing.T) {
	t.Parallel()
	kv, owner := newBucket(t), logtest.Owner()
	for _, failure := range []error{errors.New("the disk failed"), nil} {
		synced := 0
		s := keystore.Open(kv, keystore.Config{Masters: []keystore.Master{keystore.MasterKey{1}}, Sync: func(context.Context) error {
			synced++
			if _, err := kv.Get(context.Background(), string(owner)); err != nil {
				t.Errorf("synced before there is a key: %v", err)
			}
			return failure
		}})
		key, err := s.FindOrCreate(t.Context(), owner, 0, nil)
		if synced != 1 || !errors.Is(err, failure) || (key == nil) != (failure != nil) || failure != nil && !errors.Is(err, keystore.ErrUnavailable) {
			t.Errorf("synced %d times with %v: %v, %v", synced, failure, key != nil, err)
		}
	}
}

func TestMasterKeys(t *testing.T) {
	t.Parallel()
	kv, owner := newBucket(t), logtest.Owner()
	one, two := keystore.MasterKey{1}, keystore.MasterKey{2}
	key, err := openStore(t, kv, one).FindOrCreate(t.Context(), owner, 0, nil)
	must(t, err)
	sealed, _ := key.Seal(7, "m", "text")
	if _, err := openStore(t, kv, two).Find(t.Context(), owner); !errors.Is(err, keystore.ErrMasterKey) {
		t.Errorf("another master key unwraps: %v", err)
	}
	both, err := openStore(t, kv, two, one).Find(t.Context(), owner)
	must(t, err)
	if got, err := both.Open(2, 7, "m", sealed); err != nil || got != "text" {
		t.Errorf("got %q, %v", got, err)
	}
	// A key is bound to its owner: under another owner it can't be unwrapped.
	stored, err := kv.Get(t.Context(), string(owner))
	must(t, err)
	other := logtest.Owner()
	must(t, errorOf(kv.Put(t.Context(), string(other), stored.Value())))
	if _, err := openStore(t, kv, one).Find(t.Context(), other); !errors.Is(err, keystore.ErrSealed) {
		t.Errorf("another owner's key unwraps: %v", err)
	}
	if strings.Contains(one.String(), "1") {
		t.Error("a master key prints itself")
	}
}
