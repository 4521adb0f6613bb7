package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localnats"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/keystore"
)

var must, errorOf = testkit.Must, testkit.ErrorOf

// quiet ignores progress.
func quiet(string, bool, uint64, uint64) {}

const filled = 300 // messages in each stream

// fill starts a server on a folder with a log and a keystore.
func fill(t *testing.T, dir string) (*localnats.Server, *nats.Conn) {
	t.Helper()
	server, nc := serve(t, dir)
	natstest.Log(t, nc)
	js, err := jetstream.New(nc)
	must(t, err)
	keys, err := natsconf.CreateBucket(t.Context(), js, keystore.Bucket, 1)
	must(t, err)
	for i := range filled {
		must(t, errorOf(js.Publish(t.Context(), "ledger.aa.owner.memory", fmt.Appendf(nil, "log message %06d", i+1))))
		must(t, errorOf(keys.Put(t.Context(), fmt.Sprintf("key%d", i/2), fmt.Appendf(nil, "keystore message %06d", i+1)))) // each key is written twice
	}
	return server, nc
}

func serve(t *testing.T, dir string) (*localnats.Server, *nats.Conn) {
	t.Helper()
	server, err := localnats.Start(t.Context(), localnats.Config{Dir: dir, NoSync: true, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	nc, err := server.Connect()
	must(t, err)
	return server, nc
}

// damage alters a byte of a text in the server's files.
func damage(t *testing.T, dir, text string) {
	t.Helper()
	files := natstest.FilesHolding(t, filepath.Join(dir, "jetstream"), []byte(text))
	if len(files) == 0 {
		t.Fatalf("no file holds %q", text)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		must(t, err)
		data[bytes.Index(data, []byte(text))] ^= 1
		must(t, os.WriteFile(path, data, 0o600))
	}
}

// unproven makes a copy as earlier builds did: it keeps the server's snapshot without a
// proof.
func unproven(t *testing.T, nc *nats.Conn, part Part) (dir string) {
	t.Helper()
	var data bytes.Buffer
	n, err := snapshot(t.Context(), nc, streams[part], &data, func(uint64) {})
	must(t, err)
	hash := sha256.Sum256(data.Bytes())
	n.SHA256 = hex.EncodeToString(hash[:])
	text, err := json.Marshal(n)
	must(t, err)
	dir = filepath.Join(t.TempDir(), string(part))
	must(t, errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, dataName), data.Bytes(), 0o600), os.WriteFile(filepath.Join(dir, noteName), text, 0o600)))
	return dir
}

// TestADamagedStreamIsNoBackup: a stream with a message that is damaged on the server's
// disk is not backed up. A copy of such a stream, which an earlier build may have made,
// is not restored.
func TestADamagedStreamIsNoBackup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		part Part
		text string
		want string
	}{
		"the log, somewhere":      {Log, "log message 000123", "sequence 123"},
		"the log, its first":      {Log, "log message 000001", "sequence 1"},
		"the log, its newest":     {Log, fmt.Sprintf("log message %06d", filled), fmt.Sprintf("sequence %d", filled)},
		"the keystore, somewhere": {Keystore, "keystore message 000124", fmt.Sprintf("1 of %d messages", filled)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, copies := t.TempDir(), t.TempDir()
			server, _ := fill(t, data)
			must(t, server.Stop(t.Context()))
			damage(t, data, c.text)
			_, nc := serve(t, data)
			_, err := Copy(t.Context(), nc, c.part, "", filepath.Join(copies, string(c.part)), quiet)
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("backup: %v", err)
			}
			if left, err := os.ReadDir(copies); err != nil || len(left) > 0 {
				t.Errorf("it left %v, %v", left, err)
			}
			if err := Check(t.Context(), c.part, unproven(t, nc, c.part), quiet); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("restore: %v", err)
			}
		})
	}
}

// TestARestoreTakesOurSettings: what a backup says about a stream does not loosen it.
func TestARestoreTakesOurSettings(t *testing.T) {
	t.Parallel()
	_, nc := fill(t, t.TempDir())
	_, to := serve(t, t.TempDir())
	js, err := jetstream.New(to)
	must(t, err)
	for _, part := range []Part{Log, Keystore} {
		want := natsconf.StreamConfig(streams[part], 1)
		dir := filepath.Join(t.TempDir(), string(part))
		copied, err := Copy(t.Context(), nc, part, "", dir, quiet)
		must(t, err)
		var n map[string]any
		must(t, readNote(dir, noteName, &n))
		n["config"] = map[string]any{
			"deny_delete": part != Log, "deny_purge": false, "allow_rollup_hdrs": true, "max_msgs": 7, "max_age": 1_000_000, "discard": "old",
			"subjects": []string{">"}, "compression": "s2",
		}
		text, err := json.Marshal(n)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, noteName), text, 0o600)
		}
		must(t, err)
		if err := Check(t.Context(), part, dir, quiet); err != nil {
			t.Errorf("%s: %v", part, err)
		}
		// The server keeps what arrived before a restore broke off. No service takes it for the log.
		broken, breakOff := context.WithCancel(t.Context())
		if _, err := Restore(broken, to, part, dir, "", 1, func(string, bool, uint64, uint64) { breakOff() }); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", part, err)
		}
		var stream jetstream.Stream
		testkit.Await(t, "a part is there", func() bool {
			stream, err = js.Stream(t.Context(), streams[part])
			return err == nil && stream.CachedInfo().State.LastSeq > 0
		})
		must(t, errorOf(natsconf.Provision(t.Context(), js, 0)))
		must(t, errorOf(stream.Info(t.Context())))
		if _, err := eventlog.Open(t.Context(), to); eventlog.CheckRestored(stream) == nil || part == Log && !errors.Is(err, eventlog.ErrUnavailable) {
			t.Errorf("a part of %s is opened: %v", part, err)
		}
		if done, err := Restore(t.Context(), to, part, dir, "", 1, quiet); err != nil || done.Messages != copied.Messages {
			t.Fatalf("%s: %+v, %v", part, done, err)
		}
		must(t, errorOf(stream.Info(t.Context())))
		is := stream.CachedInfo().Config
		if is.Metadata[eventlog.Restoring] != "" || is.DenyDelete != want.DenyDelete || is.DenyPurge != want.DenyPurge || is.AllowRollup || is.MaxMsgs != -1 || is.MaxAge != 0 ||
			is.Discard != want.Discard || len(is.Subjects) != len(want.Subjects) || is.Compression != jetstream.NoCompression {
			t.Errorf("%s: restored with %+v, want %+v", part, is, want)
		}
		if state := stream.CachedInfo().State; state.Msgs != copied.Messages {
			t.Errorf("%s: %d messages, want %d", part, state.Msgs, copied.Messages)
		}
	}
}

// TestADamagedSecretIsFoundByRestore: not at the next start, when the backup may be gone.
func TestADamagedSecretIsFoundByRestore(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string) error{
		"another byte": func(path string) error { return os.WriteFile(path, []byte("c2VjcmV0IE5vLjI=\n"), 0o600) },
		"cut":          func(path string) error { return os.Truncate(path, 5) },
		"empty":        func(path string) error { return os.Truncate(path, 0) },
		"missing":      os.Remove,
	} {
		from, dir, to := t.TempDir(), filepath.Join(t.TempDir(), "secrets"), t.TempDir()
		for _, secret := range []string{"master-key", "jwt-secret"} {
			must(t, os.WriteFile(filepath.Join(from, secret), []byte("c2VjcmV0IE5vLjE=\n"), 0o600))
		}
		for range 2 { // a second backup into the same folder
			if done, err := Copy(t.Context(), nil, Secrets, from, dir, quiet); err != nil || done.Messages != 2 {
				t.Fatalf("%+v, %v", done, err)
			}
		}
		if err := Check(t.Context(), Secrets, dir, quiet); err != nil {
			t.Errorf("undamaged: %v", err)
		}
		if done, err := Restore(t.Context(), nil, Secrets, dir, to, 0, quiet); err != nil || done.Messages != 2 {
			t.Errorf("%+v, %v", done, err)
		}
		if files, err := os.ReadDir(to); err != nil || len(files) != 2 {
			t.Errorf("restored %v, %v", files, err)
		}
		must(t, damage(filepath.Join(dir, "master-key")))
		if err := Check(t.Context(), Secrets, dir, quiet); !errors.Is(err, ErrIncomplete) || !strings.Contains(err.Error(), "master-key") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
