package e2e_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestAVisitorsWritesAreSeen: a run answers readers from memory as long as no other
// process writes to its log. If another process revokes a key, that takes effect at
// once, even for readers that were answered from memory a moment before.
func TestAVisitorsWritesAreSeen(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(pgtest.Folder(t), "data")
	r := startRun(t, dir)
	core, _ := r.clients()
	wallet := stacktest.NewWallet()
	session := core.SignIn(wallet)
	id := core.Expect(201, "POST", "/memories", map[string]any{"content": "mine"}, session).Text("id")
	type key struct {
		id     string
		header stacktest.Header
	}
	keys := make([]key, 5)
	for i := range keys {
		made := core.Expect(201, "POST", "/keys", map[string]any{"label": fmt.Sprint(i)}, session)
		keys[i] = key{made.Text("id"), stacktest.Bearer(made.Text("key"))}
		for range 3 {
			core.Expect(200, "GET", "/memories/"+id, nil, keys[i].header)
		}
	}
	where, err := datadir.LoadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	owner, err := events.ParseOwner(wallet.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		revoke(t, where.NATSURL, owner, k.id)
		core.Expect(401, "GET", "/memories/"+id, nil, k.header)
	}
	core.Expect(200, "GET", "/memories/"+id, nil, session)
	r.stop()
}

// revoke revokes a key as a service elsewhere would.
func revoke(t *testing.T, url string, owner events.Owner, key string) {
	t.Helper()
	nc, _ := natstest.Connect(t, url)
	log, err := eventlog.Open(t.Context(), nc)
	if err != nil {
		t.Fatal(err)
	}
	last, version := uint64(0), 0
	if err := log.OwnerTail(t.Context(), events.FamilyLedger, owner, 0, func(record eventlog.Record) error {
		batch, err := events.DecodeBatch(record.Payload)
		last, version = record.Seq, version+1
		if err == nil && batch[0].OwnerVersion != version {
			err = fmt.Errorf("version %d after %d", batch[0].OwnerVersion, version-1)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	command := nats.NewInbox()
	payload, err := events.EncodeBatch([]events.Event{{
		ID: command, Source: "/core", Owner: owner, Time: events.At(time.Now()), OwnerVersion: version + 1, CommandID: command,
		Data: &events.ApiKeyRevoked{KeyID: key},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := eventlog.AppendAndWait(t.Context(), log, eventlog.Append{
		Family: events.FamilyLedger, Owner: owner, Kind: events.KindKey, CommandID: command, Expected: last, Payload: payload,
	}); err != nil {
		t.Fatal(err)
	}
}
