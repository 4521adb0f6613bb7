package keystore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/keystore"
)

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
