package assembly_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/localchain"
	"github.com/memory-ledger/ledger/infra/localchain/localchaintest"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/backup"
	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/test/contracttest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// localRun is an all-in-one run on a data folder, with its own database.
type localRun struct {
	t    *testing.T
	cfg  config.Config // as its subcommands load it
	core *stacktest.Client
	said *lines
	stop func()
}

// startRun starts a run on a folder. The run ends with the test, or when stop is called.
func startRun(t *testing.T, dir string, also ...string) *localRun {
	t.Helper()
	environ := append([]string{"LEDGER_DATA_DIR=" + dir, "DATABASE_URL=" + pgtest.Database(t), "CORE_ADDR=127.0.0.1:0", "EXTENSION_ADDR=127.0.0.1:0",
		"ANCHOR_MAX_WAIT=10ms", "SIGN_IN_CHAIN_ID=localnet"}, also...)
	cfg, err := config.Load(environ)
	must(t, err)
	r := &localRun{t: t, said: &lines{onLine: func(string) {}}}
	ctx, cancel := context.WithCancel(context.Background())
	up, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- assembly.RunLocal(ctx, cfg, console{slog.New(slog.NewTextHandler(r.said, nil)), up})
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the run ended: %v", err)
		}
	})
	t.Cleanup(r.stop)
	select {
	case <-up:
	case err := <-ended:
		ended <- err
		t.Fatalf("the run ended: %v\n%s", err, r.said.text.String())
	}
	run, err := datadir.LoadRun(dir)
	must(t, err)
	r.core = stacktest.NewClient(t, contracttest.Core, run.CoreURL)
	r.cfg = cfg
	r.cfg.NATSURL, r.cfg.SolanaRPCURL = run.NATSURL, run.SolanaRPCURL
	r.cfg.CommitmentProgramID, r.cfg.AuthorityKeypair = run.CommitmentProgramID, run.AuthorityKeypair
	return r
}

// until repeats a request to the core API until is accepts the answer.
func (r *localRun) until(what, path string, headers []stacktest.Header, is func(stacktest.Answer) bool) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		answer := r.core.Do("GET", path, nil, headers...)
		if is(answer) {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: %s\n%s", what, answer.Body, r.said.text.String())
		}
	}
}

// write stores memories. anchored waits until all memories of the session's owner are on
// the chain.
func (r *localRun) write(session stacktest.Header, texts ...string) {
	r.t.Helper()
	for _, text := range texts {
		r.core.Expect(201, "POST", "/memories", map[string]any{"content": text, "metadata": map[string]any{}}, session)
	}
}

func (r *localRun) anchored(session stacktest.Header) {
	r.t.Helper()
	r.until("everything anchored", "/log", []stacktest.Header{session}, func(a stacktest.Answer) bool {
		return a.Number("treeSize") > 0 && a.Number("anchoredSize") == a.Number("treeSize")
	})
}

// audited returns the findings of an audit of the run.
func (r *localRun) audited() (found []audit.Finding) {
	r.t.Helper()
	summary, err := assembly.Audit(r.t.Context(), r.cfg, assembly.AuditOptions{Report: func(f audit.Finding) { found = append(found, f) }})
	if err != nil || len(summary.NotChecked) > 0 {
		r.t.Errorf("audit: %v, %+v", err, summary)
	}
	return found
}

// TestARestoredRunIsAnchoredAgain: a local run is backed up while it works and anchors,
// and is restored. The restored run anchors again, on the same chain, and an audit finds
// nothing. A run restored without its chain does not anchor. It says so in one sentence,
// in its log and in readiness, and an audit reports it as one finding. The chain that the
// sentence names can then be restored too.
func TestARestoredRunIsAnchoredAgain(t *testing.T) {
	slow(t)
	t.Parallel()
	localchaintest.Start(t, localchain.Config{}) // fetches what it needs
	data, copies := t.TempDir(), filepath.Join(t.TempDir(), "copies")
	run := startRun(t, data)
	wallet := stacktest.NewWallet()
	session := run.core.SignIn(wallet)
	run.write(session, "one", "two")
	run.anchored(session)
	run.write(session, "three") // its batch may be at any stage during the backup
	said := func(backup.Done) {}
	must(t, assembly.Backup(t.Context(), run.cfg, copies, backup.Parts, said, quiet))
	run.stop()

	restored := func(parts []backup.Part) *localRun {
		t.Helper()
		dir := t.TempDir()
		must(t, assembly.Restore(t.Context(), config.Config{DataDir: dir}, copies, parts, said, quiet))
		return startRun(t, dir)
	}
	again := restored(backup.Parts)
	session = again.core.SignIn(wallet)
	again.write(session, "after the restore")
	again.anchored(session)
	if found := again.audited(); len(found) != 0 {
		t.Errorf("after the restore: %v", found)
	}
	again.stop()

	elsewhere := restored([]backup.Part{backup.Secrets, backup.Keystore, backup.Log})
	const sentence = "the chain is not the one that holds the anchored roots: its genesis hash is "
	elsewhere.until("readiness names the chain", "/readyz", nil, func(a stacktest.Answer) bool {
		var state struct{ Checks map[string]string }
		return json.Unmarshal(a.Body, &state) == nil && strings.Contains(state.Checks["anchorer"], sentence) && strings.Contains(state.Checks["anchorer"], "ledger restore DIR --only chain")
	})
	if found := elsewhere.audited(); len(found) != 1 || found[0].Check != audit.CheckOnchain || !strings.Contains(found[0].Detail, "the chain is another one") {
		t.Errorf("on another chain: %v", found)
	}
	elsewhere.stop()
	if text := elsewhere.said.text.String(); !strings.Contains(text, "level=ERROR msg=\"memories stay unanchored: "+sentence) {
		t.Errorf("it did not say so:\n%s", text)
	}

	chain := []backup.Part{backup.Chain}
	if err := assembly.Restore(t.Context(), config.Config{DataDir: elsewhere.cfg.DataDir}, copies, chain, said, quiet); !errors.Is(err, backup.ErrNotEmpty) {
		t.Errorf("over another chain: %v", err)
	}
	must(t, os.RemoveAll(filepath.Join(elsewhere.cfg.DataDir, "chain")))
	must(t, assembly.Restore(t.Context(), config.Config{DataDir: elsewhere.cfg.DataDir}, copies, chain, said, quiet))
	_, genesis, named := strings.Cut(elsewhere.said.text.String(), "the anchored roots are on ")
	genesis, _, _ = strings.Cut(genesis, ";")
	if state, err := os.ReadFile(filepath.Join(elsewhere.cfg.DataDir, "chain", "state")); err != nil || !named || !bytes.Contains(state, []byte(genesis)) {
		t.Errorf("the chain that was put back is not %q: %v", genesis, err)
	}
}

// console logs to log, and closes up when the run is up.
type console struct {
	log *slog.Logger
	up  chan struct{}
}

func (c console) Opened(string) (*slog.Logger, error) { return c.log, nil }
func (c console) Up(assembly.Up)                      { close(c.up) }
func (console) Say(string)                            {}
