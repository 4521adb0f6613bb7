package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestForgetMemory: a forgotten memory's text is nowhere, on every replica, at once and after
// a restart. Proofs and receipts from before still verify, all other texts open, and the
// audit agrees.
func TestForgetMemory(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Core: 2})
	core, other, extension, wallet := s.Core[0], s.Core[1], s.Extension[0], stacktest.NewWallet()
	session, visitor := core.SignIn(wallet), extension.SignIn(wallet)
	key := stacktest.Bearer(core.Expect(201, "POST", "/keys", map[string]any{"label": "k", "scopes": []string{"read", "write", "retract"}}, session).Text("key"))
	var ids []string
	for n := range 5 {
		ids = append(ids, core.Expect(201, "POST", "/memories", map[string]any{"content": fmt.Sprintf("Secret thing %d", n)}, session, stacktest.With("Idempotency-Key", fmt.Sprint(n))).Text("id"))
	}
	gone := "/memories/" + ids[2]
	for range 2 { // so that both replicas have the rows and texts in memory
		for _, c := range s.Core {
			c.Expect(200, "GET", gone, nil, session)
			c.Expect(200, "POST", "/memories/search", map[string]any{"query": "thing", "mode": "ranked"}, session)
		}
	}
	receipt := core.Expect(200, "GET", gone+"/receipt", nil, session).Body
	proof := core.Expect(200, "GET", gone+"/proof", nil, session).Field("proof")

	core.Expect(403, "POST", gone+"/forget", nil, key)
	core.Expect(401, "POST", gone+"/forget", nil)
	core.Expect(404, "POST", gone+"/forget", nil, core.SignIn(stacktest.NewWallet()))
	core.Expect(404, "POST", "/memories/"+strings.Repeat("0", 36)+"/forget", nil, session)
	core.Expect(200, "DELETE", "/memories/"+ids[3], nil, session)
	core.Expect(200, "POST", "/memories/"+ids[3]+"/forget", nil, session) // what was retracted, too
	if ok := core.Expect(200, "POST", gone+"/forget", nil, session).Field("ok"); ok != true {
		t.Errorf("the answer is %v", ok)
	}
	other.Expect(410, "GET", gone, nil, session)
	other.Expect(410, "GET", gone+"/receipt", nil, session)
	other.Expect(200, "POST", gone+"/forget", nil, session) // again

	for _, c := range s.Core {
		if n := c.Expect(200, "GET", "/log", nil, session).Number("memories"); n != 3 {
			t.Errorf("the log has %d memories", n)
		}
		for _, read := range []struct {
			method, path string
			body         any
		}{
			{"GET", "/memories", nil}, {"GET", "/memories?order=newest&limit=100", nil},
			{"POST", "/memories/search", map[string]any{"query": "thing"}},
			{"POST", "/memories/search", map[string]any{"query": "thing", "mode": "ranked"}},
		} {
			answer := c.Expect(200, read.method, read.path, read.body, session)
			if damaged := answer.Header.Get("Damaged"); damaged != "" {
				t.Errorf("%s %s %v: %s are damaged", read.method, read.path, read.body, damaged)
			}
			found := decode[[]view](t, answer.Body)
			if len(found) != 3 || found[0].ID == ids[2] || found[1].ID == ids[2] || found[2].ID == ids[2] {
				t.Errorf("%s %s %v: %v", read.method, read.path, read.body, found)
			}
		}
	}
	document := string(extension.Expect(200, "GET", "/agent-cases/"+tokenOf(extension.Expect(201, "POST", "/agent-cases", nil, visitor)), nil).Body)
	if strings.Contains(document, "thing 2") || !strings.Contains(document, "thing 4") || !strings.Contains(document, "Memories: 3") {
		t.Errorf("the case: %s", document)
	}
	if now := other.Expect(200, "GET", gone+"/proof", nil, session).Field("proof"); fmt.Sprint(now) != fmt.Sprint(proof) {
		t.Errorf("the proof was %v and is %v", proof, now)
	}
	if r, err := verify.ParseReceipt(receipt); err != nil || r.Verify() != nil {
		t.Errorf("the receipt of before: %v, %v", err, r.Verify())
	}
	exported := strings.Split(strings.TrimSpace(string(other.Expect(200, "GET", "/export", nil, session).Body)), "\n")
	if len(exported) != 7 || !strings.Contains(exported[3], `"entry":null`) || strings.Contains(exported[2], `"entry":null`) {
		t.Errorf("the export has %d lines, and of what was forgotten %s", len(exported), exported[3])
	}
	// The write can still be repeated, and writes continue.
	if id := core.Expect(201, "POST", "/memories", map[string]any{"content": "Secret thing 2"}, session, stacktest.With("Idempotency-Key", "2")).Text("id"); id != ids[2] {
		t.Errorf("the repeated write gives %s", id)
	}
	core.Expect(201, "POST", "/memories", map[string]any{"content": "more"}, session)
	agrees(t, s)
}

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
		if _, err := bucket.Put(t.Context(), string(owner), before.Value()); err != nil { // restored
			t.Fatal(err)
		}
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
		Seal: func(uint64) ([]byte, int, error) { return []byte("sealed"), events.SealedByOwner, nil },
	}
	noErr(t, deciding.Commands.Execute(t.Context(), events.Owner(wallet.PublicKey), write))
	return write.MemoryID
}
