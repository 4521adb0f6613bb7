// Package keystoretest gives tests a keystore.
package keystoretest

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/keystore"
)

// Start returns a keystore with one master key on its own log server, until the test ends.
func Start(t testing.TB) *keystore.Store {
	t.Helper()
	_, js := natstest.Connect(t, natstest.Start(t).URL())
	return Create(t, js, keystore.MasterKey{1})
}

// Create makes the bucket and opens a keystore in it.
func Create(t testing.TB, js jetstream.JetStream, masters ...keystore.Master) *keystore.Store {
	t.Helper()
	bucket, err := natsconf.CreateBucket(t.Context(), js, keystore.Bucket, 1)
	testkit.Must(t, err)
	stream, err := js.Stream(t.Context(), keystore.Stream)
	testkit.Must(t, err)
	return keystore.Open(bucket, keystore.Config{Masters: masters, Stream: stream})
}
