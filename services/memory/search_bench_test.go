package memory

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/keystore"
)

// BenchmarkOpenAndMatch is the part of a warm search that grows with the log:
// opening 100,000 sealed bodies and looking through them.
func BenchmarkOpenAndMatch(b *testing.B) {
	nc, err := nats.Connect(natstest.Start(b).URL())
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	kv, err := js.CreateKeyValue(b.Context(), keystore.BucketConfig(1))
	if err != nil {
		b.Fatal(err)
	}
	store, err := keystore.Open(kv, keystore.Config{Masters: []keystore.MasterKey{{1}}})
	if err != nil {
		b.Fatal(err)
	}
	key, err := store.FindOrCreate(b.Context(), logtest.Owner())
	if err != nil {
		b.Fatal(err)
	}
	const count = 100_000
	ids, sealed := make([]string, count), make([][]byte, count)
	for i := range sealed {
		ids[i] = fmt.Sprintf("01890a5d-ac96-774b-bcce-%012d", i)
		sealed[i], err = key.Seal(ids[i],
			fmt.Sprintf("memory number %d: the cat sleeps on the warm chair while rain falls on the roof at noon", i))
		if err != nil {
			b.Fatal(err)
		}
	}
	m := newMatcher("NUMBER 50000: THE")
	for b.Loop() {
		opener, found := key.Opener(), 0
		for i := range sealed {
			plain, err := opener.Open(ids[i], sealed[i])
			if err != nil {
				b.Fatal(err)
			}
			if m.match(string(plain)) {
				found++
			}
		}
		if found != 1 {
			b.Fatal(found)
		}
	}
}
