package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/keystore/keystoretest"
)

// TestCheckKey: the drill says for each key how many records it opens, of the keystore in
// use and of a backup whose server is gone, and changes no record.
func TestCheckKey(t *testing.T) {
	server := natstest.Start(t)
	nc, js := natstest.Connect(t, server.URL())
	natstest.Log(t, nc)
	right, before, other := keystore.MasterKey{1}, keystore.MasterKey{2}, keystore.MasterKey{3}
	store := keystoretest.Create(t, js, right)
	onlyEnviron(t, map[string]string{"NATS_URL": server.URL(), "LEDGER_DATA_DIR": t.TempDir()})
	drill := func(key keystore.MasterKey, code int, want string, more ...string) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "key")
		must(t, os.WriteFile(path, []byte(base64.StdEncoding.EncodeToString(key[:])+"\n"), 0o600))
		var out bytes.Buffer
		if got := run(append([]string{"check-key", path}, more...), &out); got != code || !strings.HasPrefix(out.String(), want) {
			t.Errorf("exit code %d, want %d: %s, want %s", got, code, out.String(), want)
		}
	}
	drill(right, exitFinding, "master key "+right.ID()+" opens 0 of 0 data keys\n")
	add := func(s *keystore.Store) {
		t.Helper()
		must(t, errorOf(s.FindOrCreate(t.Context(), logtest.Owner(), 0, nil)))
	}
	add(store)
	gone := logtest.Owner()
	must(t, errorOf(store.FindOrCreate(t.Context(), gone, 0, nil)))
	must(t, errorOf(keystore.Forget(t.Context(), js, gone, true)))
	drill(right, 0, "master key "+right.ID()+" opens 1 of 1 data keys\n")

	copies := filepath.Join(t.TempDir(), "copies")
	if out, err := ledger(t.Context(), "backup", copies); err != nil {
		t.Fatal(out, err)
	}
	bucket, err := js.KeyValue(t.Context(), keystore.Bucket)
	must(t, err)
	earlier := keystore.Open(bucket, keystore.Config{Masters: []keystore.Master{before}})
	add(earlier)
	must(t, errorOf(bucket.Put(t.Context(), string(logtest.Owner()), []byte(`{"v":2,"master":"`+right.ID()+`","wrapped":"AAAA"}`))))
	state := func() any {
		stream, err := js.Stream(t.Context(), keystore.Stream)
		must(t, err)
		is := stream.CachedInfo().State
		return [3]uint64{is.Msgs, is.FirstSeq, is.LastSeq}
	}
	was := state()
	drill(right, exitFinding, "master key "+right.ID()+" opens 1 of 3 data keys\n1 need master key "+before.ID()+"\n1 are damaged\n")
	drill(before, exitFinding, "master key "+before.ID()+" opens 1 of 3 data keys\n2 need master key "+right.ID()+"\n")
	if is := state(); is != was {
		t.Errorf("the drill changed the keystore: %v, was %v", is, was)
	}

	must(t, server.Stop(context.Background()))
	drill(right, exitUsage, "")
	drill(right, 0, "master key "+right.ID()+" opens 1 of 1 data keys\n", "--backup", copies)
	drill(other, exitFinding, "master key "+other.ID()+" opens 0 of 1 data keys\n1 need master key "+right.ID()+"\n", "--backup", copies)
	drill(right, exitUsage, "", "--backup", t.TempDir())
	must(t, os.WriteFile(filepath.Join(copies, "keystore", "stream.s2"), []byte("x"), 0o600))
	drill(right, exitUsage, "", "--backup", copies)
}

// TestCheckKeyReadsStandardInput, so that a key from the safe need not touch a disk.
func TestCheckKeyReadsStandardInput(t *testing.T) {
	onlyEnviron(t, map[string]string{"LEDGER_DATA_DIR": t.TempDir()})
	for text, want := range map[string]string{
		base64.StdEncoding.EncodeToString(make([]byte, keystore.KeySize)) + "\r\n": "not running",
		"short": "standard input: not 32 bytes in base64", "": "standard input: not set",
	} {
		root := newRoot()
		root.SetIn(strings.NewReader(text))
		root.SetArgs([]string{"check-key", "-"})
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
