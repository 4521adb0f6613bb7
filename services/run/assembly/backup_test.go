package assembly_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/services/run/adminlog"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/backup"
	"github.com/memory-ledger/ledger/services/run/config"
)

// quiet ignores progress.
func quiet(string, bool, uint64, uint64) {}

// provisioned connects to a server, and provisions it.
func provisioned(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	_, js := natstest.Connect(t, url)
	must(t, errorOf(natsconf.Provision(t.Context(), js, 0)))
	return js
}

// TestANamedPartIsNotLeftOut: a restore that can't put back each named part puts back
// none. Without names it puts back what there is.
func TestANamedPartIsNotLeftOut(t *testing.T) {
	t.Parallel()
	from, to := natstest.Start(t), natstest.Start(t)
	provisioned(t, from.URL())
	dir, done := filepath.Join(t.TempDir(), "copies"), 0
	say := func(backup.Done) { done++ }
	must(t, assembly.Backup(t.Context(), config.Config{NATSURL: from.URL()}, dir, []backup.Part{backup.Log}, func(backup.Done) {}, quiet))
	must(t, os.Mkdir(filepath.Join(dir, string(backup.Secrets)), 0o700))
	cfg := config.Config{NATSURL: to.URL()}
	for part, want := range map[backup.Part]string{
		backup.Keystore: "there is no backup of keystore in " + dir, backup.Secrets: "go only into a data folder",
	} {
		err := assembly.Restore(t.Context(), cfg, dir, []backup.Part{backup.Log, part}, say, quiet)
		if err == nil || !strings.Contains(err.Error(), want) || done != 0 {
			t.Errorf("log and %s: %d restored, %v", part, done, err)
		}
	}
	if err := assembly.Restore(t.Context(), cfg, dir, nil, say, quiet); err != nil || done != 1 {
		t.Errorf("what there is: %d restored, %v", done, err)
	}
}

// TestAnotherSecretEndsARestore: a folder has a secret that differs from the backup's. Nothing
// else is put back, so that the same restore can be tried again.
func TestAnotherSecretEndsARestore(t *testing.T) {
	t.Parallel()
	from := natstest.Start(t)
	must(t, errorOf(provisioned(t, from.URL()).Publish(t.Context(), "$KV.ledger_keys.owner", []byte("data key"))))
	dir, folder, done := filepath.Join(t.TempDir(), "copies"), t.TempDir(), 0
	must(t, assembly.Backup(t.Context(), config.Config{NATSURL: from.URL()}, dir, []backup.Part{backup.Log, backup.Keystore}, func(backup.Done) {}, quiet))
	secret := filepath.Join(folder, "secrets", "jwt-secret")
	for path, text := range map[string]string{filepath.Join(dir, "secrets", "jwt-secret"): "b25l", secret: "dHdv"} {
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	restore := func() error {
		return assembly.Restore(t.Context(), config.Config{DataDir: folder}, dir, nil, func(backup.Done) { done++ }, quiet)
	}
	if err := restore(); !errors.Is(err, backup.ErrNotEmpty) || done != 0 {
		t.Errorf("over another secret: %d restored, %v", done, err)
	}
	must(t, os.Remove(secret))
	if err := restore(); err != nil || done != 3 {
		t.Errorf("without it: %d restored, %v", done, err)
	}
	if err := restore(); !errors.Is(err, backup.ErrNotEmpty) || !strings.Contains(err.Error(), "--only log") {
		t.Errorf("again, as after a crash: %v", err)
	}
}

// TestABackupOfAnotherLog: a data folder has a local run's secrets and log, and NATS_URL
// names another log. The secrets stay out of its backup, and go to no other log.
func TestABackupOfAnotherLog(t *testing.T) {
	t.Parallel()
	cfg := config.Config{NATSURL: natstest.Start(t).URL(), DataDir: t.TempDir()}
	for _, folder := range []string{"nats", "secrets"} {
		must(t, os.Mkdir(filepath.Join(cfg.DataDir, folder), 0o700))
	}
	to := filepath.Join(t.TempDir(), "copy")
	err := assembly.Backup(t.Context(), cfg, to, []backup.Part{backup.Log, backup.Secrets}, func(backup.Done) {}, quiet)
	if err == nil || !strings.Contains(err.Error(), "keeps no secrets in "+cfg.DataDir) {
		t.Errorf("backup: %v", err)
	}
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what it leaves: %v", err)
	}
	must(t, os.MkdirAll(filepath.Join(to, string(backup.Secrets)), 0o700))
	err = assembly.Restore(t.Context(), cfg, to, []backup.Part{backup.Secrets}, func(backup.Done) {}, quiet)
	if err == nil || !strings.Contains(err.Error(), "go only into a data folder") {
		t.Errorf("restore: %v", err)
	}
}

// TestABackupIntoAFolderOfOldNames: file systems know bytes, not UTF-8. Such a folder takes a
// backup, and the admin log shows its name as far as text can.
func TestABackupIntoAFolderOfOldNames(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	provisioned(t, server.URL())
	dir, cfg := filepath.Join(t.TempDir(), "f\xfcr"), config.Config{NATSURL: server.URL()}
	backUp := func() error {
		return assembly.Backup(t.Context(), cfg, dir, []backup.Part{backup.Log}, func(backup.Done) {}, quiet)
	}
	must(t, backUp())
	if err := backUp(); !errors.Is(err, backup.ErrNotEmpty) {
		t.Errorf("again: %v", err)
	}
	var states []adminlog.State
	must(t, assembly.AdminLog(t.Context(), cfg, 1, func(e adminlog.Entry) error {
		states = append(states, e.State)
		if !strings.HasSuffix(e.About["to"], "f\ufffdr") {
			t.Errorf("about %q", e.About["to"])
		}
		return nil
	}))
	if want := []adminlog.State{adminlog.Begun, adminlog.Done, adminlog.Begun, adminlog.Failed}; !slices.Equal(states, want) {
		t.Errorf("recorded %v", states)
	}
}

// TestAFailedBackupIsRemoved: a failed backup leaves no files that would make the next
// backup fail.
func TestAFailedBackupIsRemoved(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	js := provisioned(t, server.URL())
	must(t, js.DeleteStream(t.Context(), "KV_ledger_keys"))
	dir, cfg := filepath.Join(t.TempDir(), "copies"), config.Config{NATSURL: server.URL()}
	both := []backup.Part{backup.Log, backup.Keystore}
	for range 2 {
		said := 0
		err := assembly.Backup(t.Context(), cfg, dir, both, func(backup.Done) { said++ }, quiet)
		if !errors.Is(err, jetstream.ErrStreamNotFound) || said > 0 {
			t.Errorf("without a keystore: %v, %d parts", err, said)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("what it leaves: %v", err)
		}
	}
	// Files that existed before are left alone.
	must(t, os.MkdirAll(filepath.Join(dir, "keystore"), 0o700))
	other := filepath.Join(dir, "keystore", "stream.s2")
	must(t, os.WriteFile(other, []byte("another backup"), 0o600))
	if err := assembly.Backup(t.Context(), cfg, dir, both, func(backup.Done) {}, quiet); !errors.Is(err, backup.ErrNotEmpty) {
		t.Errorf("over another: %v", err)
	}
	if text, err := os.ReadFile(other); err != nil || string(text) != "another backup" {
		t.Errorf("the other one: %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "log")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its own: %v", err)
	}
	empty, file := t.TempDir(), filepath.Join(dir, "notes")
	must(t, os.WriteFile(file, []byte("not a folder"), 0o600))
	for _, to := range []string{empty, file} {
		if err := assembly.Backup(t.Context(), cfg, to, both, func(backup.Done) {}, quiet); err == nil {
			t.Errorf("into %s: no error", to)
		}
		if _, err := os.Stat(to); err != nil {
			t.Errorf("it was there before: %v", err)
		}
	}
}

// TestTheAdminLogIsRestored: what operators did before is told after a restore too. An admin
// log that has records goes on, unless it was named.
func TestTheAdminLogIsRestored(t *testing.T) {
	t.Parallel()
	from, to := natstest.Start(t), natstest.Start(t)
	provisioned(t, from.URL())
	provisioned(t, to.URL())
	dir, cfg, said := filepath.Join(t.TempDir(), "copies"), config.Config{NATSURL: to.URL()}, func(backup.Done) {}
	must(t, assembly.Backup(t.Context(), config.Config{NATSURL: from.URL()}, dir, nil, said, quiet))
	must(t, os.Mkdir(filepath.Join(dir, "secrets"), 0o700)) // of a local run: they go only into a data folder
	var parts string
	acts := func() (acts []string) {
		t.Helper()
		must(t, assembly.AdminLog(t.Context(), cfg, 0, func(e adminlog.Entry) error {
			acts, parts = append(acts, e.Act+" "+string(e.State)), e.About["parts"]
			return nil
		}))
		return acts
	}
	must(t, assembly.Restore(t.Context(), cfg, dir, nil, said, quiet))
	want := []string{"backup begun", "restore begun", "restore done"}
	if got := acts(); !slices.Equal(got, want) || parts != "admin,keystore,log" {
		t.Errorf("%v of %s, want %v", got, parts, want)
	}
	must(t, assembly.Restore(t.Context(), cfg, dir, nil, said, quiet)) // no message was written since
	if got := acts(); !slices.Equal(got, append(want, want[1:]...)) {
		t.Errorf("%v", got)
	}
	if err := assembly.Restore(t.Context(), cfg, dir, []backup.Part{backup.Admin}, said, quiet); !errors.Is(err, backup.ErrNotEmpty) {
		t.Errorf("over another admin log: %v", err)
	}
}

// TestARestoredLogIsProvisioned: a log gets its consumers, and a restore without the log makes
// none, whose number of replicas the log would keep.
func TestARestoredLogIsProvisioned(t *testing.T) {
	t.Parallel()
	from, to := natstest.Start(t), natstest.Start(t)
	provisioned(t, from.URL())
	_, js := natstest.Connect(t, to.URL())
	dir, said := filepath.Join(t.TempDir(), "copies"), func(backup.Done) {}
	must(t, assembly.Backup(t.Context(), config.Config{NATSURL: from.URL()}, dir, nil, said, quiet))
	restore := func(part backup.Part) {
		t.Helper()
		must(t, assembly.Restore(t.Context(), config.Config{NATSURL: to.URL()}, dir, []backup.Part{part}, said, quiet))
	}
	restore(backup.Keystore)
	if _, err := js.Stream(t.Context(), eventlog.StreamName); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("a log of a keystore: %v", err)
	}
	restore(backup.Log)
	for _, name := range []string{"projector", "anchorer"} {
		if _, err := js.Consumer(t.Context(), eventlog.StreamName, name); err != nil {
			t.Errorf("consumer %s: %v", name, err)
		}
	}
}
