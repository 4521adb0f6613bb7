package e2e_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestForgettingIsFinished: a service that ends after the event, before the key is destroyed,
// leaves the rest to the next one that starts. So does a keystore that was restored from a
// backup from before.
func TestForgettingIsFinished(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	servers := stacktest.Options{NATSURL: natstest.Start(t, natstest.Dir(dir)).URL(), DatabaseURL: pgtest.Database(t)}
	first, wallet := stacktest.Start(t, servers), stacktest.NewWallet()
	owner, session := events.Owner(wallet.PublicKey), first.Core[0].SignIn(wallet)
	var ids []string
	for n := range 3 {
		ids = append(ids, first.Core[0].Expect(201, "POST", "/memories", map[string]any{"content": fmt.Sprint("text ", n)}, session).Text("id"))
	}
	base, _ := first.Beside(t)
	deciding, err := assembly.NewAPIServer(t.Context(), base, assembly.Neighbors{})
	noErr(t, err)
	noErr(t, deciding.Commands.Execute(t.Context(), owner, &command.ForgetMemory{MemoryID: ids[1], LeafIndex: 1}))
	_, js := natstest.Connect(t, servers.NATSURL)
	bucket, err := js.KeyValue(t.Context(), keystore.Bucket)
	noErr(t, err)
	before, err := bucket.Get(t.Context(), string(owner))
	noErr(t, err)
	first.Core[0].Expect(410, "GET", "/memories/"+ids[1], nil, session)
	first.Stop()
	for range 2 {
		starting := changes(t, bucket, owner)
		s := stacktest.Start(t, servers)
		<-starting
		s.Core[0].Expect(200, "POST", "/memories/"+ids[1]+"/forget", nil, session) // waits until the old entry is erased
		s.Core[0].Expect(410, "GET", "/memories/"+ids[1], nil, session)
		s.Core[0].Expect(200, "GET", "/memories/"+ids[2], nil, session)
		s.Stop()
		if files := natstest.FilesHolding(t, dir, before.Value()); len(files) > 0 {
			t.Errorf("a key of what was forgotten is in %q", files)
		}
		agrees(t, s)
		noErr(t, errorOf(bucket.Put(t.Context(), string(owner), before.Value()))) // restored
	}
}

// changes returns a channel that gets the next change of an owner's entry.
func changes(t *testing.T, bucket jetstream.KeyValue, owner events.Owner) <-chan jetstream.KeyValueEntry {
	t.Helper()
	watcher, err := bucket.Watch(t.Context(), string(owner), jetstream.UpdatesOnly())
	noErr(t, err)
	return watcher.Updates()
}

// withoutOwnKey writes a memory as an earlier build did, under its owner's data key, and
// returns its id.
func withoutOwnKey(t *testing.T, s *stacktest.Stack, wallet stacktest.Wallet) string {
	t.Helper()
	base, _ := s.Beside(t)
	deciding, err := assembly.NewAPIServer(t.Context(), base, assembly.Neighbors{})
	noErr(t, err)
	write := &command.WriteMemory{
		MemoryID: assembly.NewID(), Metadata: canonical.Empty,
		Seal: func(uint64) ([]byte, int) { return []byte("sealed"), events.SealedByOwner },
	}
	noErr(t, deciding.Commands.Execute(t.Context(), events.Owner(wallet.PublicKey), write))
	return write.MemoryID
}
