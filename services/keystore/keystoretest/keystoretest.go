// Package keystoretest gives tests a keystore on a log server of their own.
package keystoretest

import (
	"testing"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/keystore"
)

// Start returns a keystore with one master key. It ends with the test.
func Start(t testing.TB) *keystore.Store {
	t.Helper()
	_, js := natstest.Connect(t, natstest.Start(t).URL())
	kv, err := keystore.Create(t.Context(), js, 1)
	if err != nil {
		t.Fatal(err)
	}
	store, err := keystore.Open(kv, keystore.Config{Masters: []keystore.MasterKey{{1}}})
	if err != nil {
		t.Fatal(err)
	}
	return store
}
