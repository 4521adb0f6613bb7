package main

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/keystore/keystoretest"
)

// Beside a local run, the key that it generated is one of the two keys that a rewrap
// needs.
func TestRewrapFindsALocalRunsKey(t *testing.T) {
	server, dir := natstest.Start(t), t.TempDir()
	d, err := datadir.Open(dir)
	must(t, err)
	defer func() { _ = d.Close() }()
	generated, err := d.Secret("master-key", keystore.KeySize)
	if err == nil {
		err = d.WriteRun(datadir.Run{NATSURL: server.URL()})
	}
	must(t, err)
	nc, js := natstest.Connect(t, server.URL())
	if _, err := eventlog.Create(t.Context(), nc, eventlog.Config{Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	store := keystoretest.Create(t, js, keystore.MasterKey(generated))
	if _, err := store.FindOrCreate(t.Context(), logtest.Owner(), 0); err != nil {
		t.Fatal(err)
	}
	fresh := base64.StdEncoding.EncodeToString(append(make([]byte, keystore.KeySize-1), 1))
	rewraps := func(environ map[string]string, want string) {
		t.Helper()
		environ["LEDGER_DATA_DIR"] = dir
		onlyEnviron(t, environ)
		out, err := ledger(t.Context(), "rewrap")
		if err != nil {
			out = err.Error()
		}
		if !strings.HasPrefix(out, want) {
			t.Errorf("%s, want %s", out, want)
		}
	}
	rewraps(map[string]string{}, "MASTER_KEY_PREVIOUS: not set")
	rewraps(map[string]string{"MASTER_KEY": fresh}, "1 data keys examined: 1 rewrapped")
	rewraps(map[string]string{"MASTER_KEY_PREVIOUS": fresh}, "1 data keys examined: 1 rewrapped")
}
