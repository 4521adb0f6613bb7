package e2e_test

import (
	"context"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/infra/node"
	"github.com/memory-ledger/ledger/infra/npm"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestEnvInAShell: the output of env lets other programs read the log and nothing else,
// whatever the name of the data folder. In that shell, the commands of ledger keep all their rights.
func TestEnvInAShell(t *testing.T) {
	slow(t)
	t.Parallel()
	dir := filepath.Join(pgtest.Folder(t), `a b+c 'd' $HOME`)
	r := startRun(t, dir)
	core, _ := r.clients()
	wallet := stacktest.NewWallet()
	session := core.SignIn(wallet)
	core.Expect(201, "POST", "/memories", map[string]any{"content": "kept"}, session)
	shell := func(script string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-ec", `eval "$("$LEDGER" env)"; `+script)
		cmd.Env = append(os.Environ(), "LEDGER_DATA_DIR="+dir, "LEDGER="+r.cmd.Path, "OWNER="+wallet.PublicKey)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		return string(out)
	}
	url := strings.TrimSpace(shell(`sh -c 'echo "$NATS_URL"'`))
	// In another data folder, by that URL alone.
	elsewhere := exec.Command(r.cmd.Path, "tail", "--type", "MemoryWritten")
	elsewhere.Env = append(os.Environ(), "LEDGER_DATA_DIR="+t.TempDir(), "NATS_URL="+url)
	if out, err := elsewhere.CombinedOutput(); err != nil || strings.Count(string(out), "\n") != 1 {
		t.Errorf("tail: %v\n%s", err, out)
	}
	core.Expect(200, "GET", "/memories", nil, session)
	if out := shell(`"$LEDGER" tail --type MemoryWritten; "$LEDGER" verify; "$LEDGER" backup "$LEDGER_DATA_DIR/../copy"; "$LEDGER" forget "$OWNER" --yes`); !strings.Contains(out, "agrees") ||
		!strings.Contains(out, "is destroyed") || strings.Contains(out, "not checked  contents") {
		t.Errorf("the commands say\n%s", out)
	}
	r.stop()
}

// TestTours: both tours lead from a wallet to a good, anchored receipt, and say so.
func TestTours(t *testing.T) {
	t.Parallel()
	program, err := node.Program(t.Context(), npm.CacheFolder(), nil)
	noErr(t, err)
	root, err := filepath.Abs("../../..")
	noErr(t, err)
	dir := filepath.Join(pgtest.Folder(t), "data")
	r := startRun(t, dir, "LOCAL_CHAIN=on")
	core, _ := r.clients()
	for _, tour := range []string{program + " docs/tour.mjs", "docs/tour.sh"} {
		t.Run(path.Base(tour), func(t *testing.T) {
			t.Parallel()
			home := newcomersFolder(t, root, r.cmd.Path)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "sh", "-c", tour+" && bin/ledger verify-receipt receipt.json")
			cmd.Dir, cmd.Env = home, append(os.Environ(), "LEDGER_DATA_DIR="+dir, "CORE_URL="+core.URL)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range []string{"signed in as    ", "read back       The cat sleeps", "found by search 1 memory", "anchored by     ", "wrote           receipt.json", "is a prefix of the"} {
				if !strings.Contains(string(out), want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			stopped := exec.Command("sh", "-c", tour)
			stopped.Dir, stopped.Env = home, append(os.Environ(), "CORE_URL=http://127.0.0.1:1")
			if out, err := stopped.CombinedOutput(); err == nil || !strings.Contains(string(out), "set CORE_URL") {
				t.Errorf("elsewhere: %v\n%s", err, out)
			}
		})
	}
}
