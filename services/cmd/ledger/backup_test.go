package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/keystore"
)

// A log that lacks a message is a finding of backup. A script that keeps only the newest
// copies must not mistake the bad copy for a good one.
func TestADamagedLogEndsABackup(t *testing.T) {
	url := natstest.Start(t).URL()
	_, js := natstest.Connect(t, url)
	cfg := eventlog.StreamConfig(eventlog.Config{})
	cfg.DenyDelete = false // to delete a message, as if the server had lost it
	stream, err := js.CreateStream(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keystore.Create(t.Context(), js, 1); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := js.Publish(t.Context(), "ledger.aa.owner.memory", []byte("[]")); err != nil {
			t.Fatal(err)
		}
	}
	onlyEnviron(t, map[string]string{"NATS_URL": url, "LEDGER_DATA_DIR": t.TempDir()})
	good, bad := filepath.Join(t.TempDir(), "copies"), filepath.Join(t.TempDir(), "copies")
	if code := run([]string{"backup", good}, io.Discard); code != 0 {
		t.Errorf("a whole log: exit code %d", code)
	}
	if err := stream.DeleteMsg(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if code := run([]string{"backup", bad}, io.Discard); code != exitFinding {
		t.Errorf("a damaged log: exit code %d", code)
	}
	if _, err := os.Stat(bad); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it left a backup: %v", err)
	}
}
