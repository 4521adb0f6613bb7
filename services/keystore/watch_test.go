package keystore_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/keystore"
)

// watched is a store whose clock and whose Watch the test controls.
type watched struct {
	*keystore.Store
	js   jetstream.JetStream
	late *late
	tick chan time.Time
	now  atomic.Int64
}

func startWatched(t *testing.T, server interface{ URL() string }) *watched {
	t.Helper()
	w := &watched{js: connect(t, server), tick: make(chan time.Time)}
	w.now.Store(time.Now().UnixNano())
	w.late = &late{KeyValue: bucketIn(t, w.js)}
	stream, err := w.js.Stream(t.Context(), keystore.Stream)
	must(t, err)
	w.Store = openWith(t, w.late, keystore.Config{
		Masters: []keystore.Master{keystore.MasterKey{1}}, Stream: stream,
		Now: func() time.Time { return time.Unix(0, w.now.Load()) },
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Watch(ctx, w.tick) }()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

// look makes Watch look, and returns when it has: Watch takes the second tick after the
// look that the first one started.
func (w *watched) look() {
	w.tick <- time.Time{}
	w.tick <- time.Time{}
}

func (w *watched) pass(d time.Duration) { w.now.Add(int64(d)) }

// TestAForgottenKeyIsDropped at the next look, long before it is too old, and the other
// keys stay cached.
func TestAForgottenKeyIsDropped(t *testing.T) {
	t.Parallel()
	w := startWatched(t, natstest.Start(t))
	w.look()
	gone, kept := logtest.Owner(), logtest.Owner()
	makeKey(t, w.Store, gone)
	makeKey(t, w.Store, kept)
	w.look() // the new entries are the cached ones
	for range 2 {
		must(t, errorOf(w.Find(t.Context(), gone)))
		must(t, errorOf(w.Find(t.Context(), kept)))
	}
	if misses := w.Hits.Misses.Load(); misses > 4 { // two for each creation
		t.Errorf("%d lookups of two keys that nobody forgot went to the bucket", misses)
	}
	must(t, errorOf(keystore.Forget(t.Context(), w.js, gone, false)))
	w.look()
	if _, err := w.Find(t.Context(), gone); !errors.Is(err, keystore.ErrForgotten) {
		t.Errorf("a key that was forgotten: %v", err)
	}
	before := w.Hits.Hits.Load()
	w.pass(50 * time.Second)
	w.look()
	_, err := w.Find(t.Context(), kept)
	if hits := w.Hits.Hits.Load(); err != nil || hits != before+1 {
		t.Errorf("a key that is watched was read again: %v", err)
	}
}

// TestASlowLookupBringsNoKeyBack: while it waits, a leaf's key is destroyed elsewhere, another
// lookup reads the new entry, and Watch finds that one in memory.
func TestASlowLookupBringsNoKeyBack(t *testing.T) {
	t.Parallel()
	w, owner := startWatched(t, natstest.Start(t)), logtest.Owner()
	elsewhere := openMarked(t, w.js, w.late.KeyValue, keystore.MasterKey{1})
	makeKey(t, elsewhere, owner)
	w.look()
	w.late.meanwhile = func() {
		must(t, elsewhere.DestroyLeaves(t.Context(), owner, 7))
		must(t, errorOf(w.Find(t.Context(), owner)))
		w.look()
	}
	must(t, errorOf(w.Find(t.Context(), owner)))
	if key, err := w.Find(t.Context(), owner); err != nil || !key.Destroyed(7) {
		t.Errorf("the destroyed key is used again: %v", err)
	}
}

// unmarking is a JetStream that publishes nothing.
type unmarking struct{ jetstream.JetStream }

func (unmarking) PublishMsg(context.Context, *nats.Msg, ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	return nil, context.DeadlineExceeded
}

// TestAKeyThatWasDestroyedWithoutItsMark: the publish of the mark fails, or the process
// ends before it. The next attempt finds no key and must leave the mark: other processes
// learn by the mark alone that nothing may be sealed with the key.
func TestAKeyThatWasDestroyedWithoutItsMark(t *testing.T) {
	t.Parallel()
	for name, destroy := range map[string]func(*keystore.Store, jetstream.JetStream, events.Owner) error{
		"by its owner": func(s *keystore.Store, js jetstream.JetStream, owner events.Owner) error {
			return s.Destroy(t.Context(), js, owner, keystore.AnyKey)
		},
		"by an operator": func(_ *keystore.Store, js jetstream.JetStream, owner events.Owner) error {
			_, err := keystore.Forget(t.Context(), js, owner, true)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := startWatched(t, natstest.Start(t))
			other.look()
			owner := logtest.Owner()
			makeKey(t, other.Store, owner)
			other.look()
			mine := openPausing(t, other.js, func(_ context.Context, d time.Duration) bool {
				other.pass(d)
				other.look()
				return true
			})
			if err := destroy(mine, unmarking{other.js}, owner); !errors.Is(err, keystore.ErrUnavailable) {
				t.Fatalf("without a mark: %v", err)
			}
			must(t, destroy(mine, other.js, owner))
			fresh, err := mine.FindOrCreate(t.Context(), owner, 1, nil)
			must(t, err)
			key, err := other.Find(t.Context(), owner)
			must(t, err)
			sealed, _ := key.Seal(7, "id", "text")
			if text, err := fresh.Open(2, 7, "id", sealed); err != nil || text != "text" {
				t.Errorf("the other process sealed with the destroyed key: %q, %v", text, err)
			}
		})
	}
}

// TestAKeyThatCantBeReadIsThere: a server that fails to read a key says that it has
// none. The key does not count as missing or forgotten: Find, Forget, PutBack and
// FindOrCreate return an error.
func TestAKeyThatCantBeReadIsThere(t *testing.T) {
	t.Parallel()
	server := natstest.StartProcess(t)
	open := func() (jetstream.JetStream, jetstream.KeyValue, *keystore.Store) {
		t.Helper()
		js := connect(t, server)
		bucket := bucketIn(t, js)
		return js, bucket, openMarked(t, js, bucket, keystore.MasterKey{1})
	}
	_, bucket, s := open()
	holder, stranger := logtest.Owner(), logtest.Owner()
	makeKey(t, s, holder)
	stored, err := bucket.Get(t.Context(), string(holder))
	must(t, err)
	// The server has the messages it just stored in memory, and after a restart the newest
	// of its files.
	for i := range 80 { // as large as the bucket accepts
		must(t, errorOf(bucket.Put(t.Context(), fmt.Sprint("filler-", i), make([]byte, 64_000))))
	}
	server.Stop()
	server.Start()
	js, bucket, s := open()
	feed := server.Starve()
	if _, err := bucket.Get(t.Context(), string(holder)); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Fatalf("the server can read: %v", err)
	}
	if _, err := s.Find(t.Context(), holder); !errors.Is(err, keystore.ErrUnavailable) || errors.Is(err, keystore.ErrNoKey) {
		t.Errorf("find: %v", err)
	}
	if done, err := keystore.Forget(t.Context(), js, holder, false); !errors.Is(err, keystore.ErrUnavailable) {
		t.Errorf("forget: %+v, %v", done, err)
	}
	if put, err := s.PutBack(t.Context(), stored); !errors.Is(err, keystore.ErrUnavailable) {
		t.Errorf("put back: %v, %v", put, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // a server that can't write either does not answer
	defer cancel()
	if _, err := s.FindOrCreate(ctx, holder, 0, nil); err == nil {
		t.Error("another key was made")
	}
	if existed, err := keystore.Forget(t.Context(), js, stranger, false); err != nil || existed {
		t.Errorf("forget who has none: %v, %v", existed, err)
	}
	if _, err := s.Find(t.Context(), stranger); !errors.Is(err, keystore.ErrNoKey) || errors.Is(err, keystore.ErrForgotten) {
		t.Errorf("find who has none: %v", err)
	}
	feed()
	if again, err := bucket.Get(t.Context(), string(holder)); err != nil || again.Revision() != stored.Revision() {
		t.Errorf("the key is another: %v", err)
	}
	if _, err := s.Find(t.Context(), holder); err != nil {
		t.Errorf("find, once it can be read: %v", err)
	}
}
