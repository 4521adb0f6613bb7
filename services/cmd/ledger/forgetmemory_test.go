package main

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/services/keystore"
)

// TestOnlyCoreDestroysKeys of single memories, with the shipped permissions. The extension
// seals with such a key, and sees that it is gone.
func TestOnlyCoreDestroysKeys(t *testing.T) {
	urlOf := deployed(t)
	open := func(user string) (*keystore.Store, jetstream.JetStream) {
		js, err := jetstream.New(dial(t, urlOf(user)))
		must(t, err)
		bucket, err := js.KeyValue(t.Context(), keystore.Bucket)
		must(t, err)
		keys, err := keystore.Open(bucket, keystore.Config{Masters: []keystore.Master{keystore.MasterKey{1}}})
		must(t, err)
		return keys, js
	}
	core, coreJS := open("core")
	extension, extensionJS := open("extension")
	owner := logtest.Owner()
	if _, err := core.FindOrCreate(t.Context(), owner, 0); err != nil {
		t.Fatal(err)
	}
	for leaf := range uint64(2) { // the second time, there is an entry to erase
		must(t, core.DestroyLeaves(t.Context(), coreJS, owner, leaf))
	}
	key, err := extension.FindToSeal(t.Context(), owner)
	if err != nil || !key.Destroyed(1) || key.Destroyed(2) {
		t.Errorf("the extension's key: %v", err)
	}
	refused, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := extension.DestroyLeaves(refused, extensionJS, owner, 2); err == nil {
		t.Error("the extension destroyed a key")
	}
}
