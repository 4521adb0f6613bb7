package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/keystore"
)

// atOnce is much less than any of these commands is willing to wait.
const atOnce = 8 * time.Second

// runs runs a command that must fail at once, and returns its error.
func runs(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atOnce)
	defer cancel()
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil || ctx.Err() != nil {
		t.Fatalf("%v: %v, %v", args, err, ctx.Err())
	}
	return err.Error()
}

// A tool whose credentials lack a permission ends at once, and says whose credentials it
// needs.
func TestToolsSayWhoseCredentialsTheyNeed(t *testing.T) {
	urlOf := deployed(t)
	owner := write(t, urlOf("core"), 1)
	dir, key := filepath.Join(t.TempDir(), "copies"), keyFile(t, keystore.MasterKey{1})
	js := dial(t, urlOf("admin"))
	if _, err := js.Request("$KV.ledger_keys."+string(owner), []byte(`{"v":1,"master":"x","wrapped":""}`), time.Second); err != nil {
		t.Fatal(err)
	}
	for tool, args := range map[string][]string{
		"backup": {"backup", dir}, "forget": {"forget", string(owner), "--yes"}, "provision": {"provision"},
		"check-key": {"check-key", key},
	} {
		// Not the core API's credentials: they may destroy a key, because owners ask the
		// API to.
		onlyEnviron(t, map[string]string{"NATS_URL": urlOf("extension"), "LEDGER_DATA_DIR": t.TempDir()})
		said := runs(t, args...)
		if !strings.Contains(said, tool+" needs the administrator's credentials") || !strings.Contains(strings.ToLower(said), "permissions violation") {
			t.Errorf("%s: %s", tool, said)
		}
	}
}

// provision ends at once if the replicas are impossible to get.
func TestProvisionDoesNotWaitInVain(t *testing.T) {
	onlyEnviron(t, map[string]string{"NATS_URL": natstest.Start(t).URL(), "NATS_REPLICAS": "3"})
	if said := runs(t, "provision"); !strings.Contains(said, "set NATS_REPLICAS=1, or give it a cluster") {
		t.Error(said)
	}
}
