package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/archtest/documents"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// perDocument bounds the commands of one document.
const perDocument = 3 * time.Minute

// leastRun is how many blocks of each document must be run at least. The test fails if it
// no longer finds a document's blocks.
var leastRun = map[string]int{"README.md": 4, "docs/agents.md": 2, "docs/api.md": 8, "docs/audit.md": 5, "docs/operations.md": 1}

// TestDocuments runs the commands of the documents as a newcomer would: in a folder that
// has bin/ledger and docs, beside a local run. The commands of one document share one
// shell. It skips blocks that say why they are not run (infra/archtest checks that they
// do), and blocks that only call make: CI runs those targets.
func TestDocuments(t *testing.T) {
	slow(t)
	t.Parallel()
	for _, tool := range []string{"bash", "curl", "jq", "node", "openssl", "psql"} {
		if _, err := exec.LookPath(tool); err != nil {
			stacktest.Lacking(t, err.Error())
		}
	}
	root := must(filepath.Abs("../../.."))
	all, err := documents.List(root)
	noErr(t, err)
	dir := filepath.Join(pgtest.Folder(t), "data")
	r := startRun(t, dir)
	core, extension := r.clients()
	wallet := stacktest.NewWallet()
	core.SignIn(wallet)
	moved := strings.NewReplacer("http://127.0.0.1:3001", core.URL, "http://127.0.0.1:3002", extension.URL)
	environ := append(os.Environ(), "LEDGER_DATA_DIR="+dir, "CORE_URL="+core.URL, "OWNER="+wallet.PublicKey, "TMPDIR="+t.TempDir())
	for _, path := range all {
		name := must(filepath.Rel(root, path))
		script, blocks := scriptOf(t, path)
		if blocks < leastRun[name] {
			t.Errorf("%s: only %d blocks to run", name, blocks)
		}
		if blocks == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), perDocument)
		cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", moved.Replace(script))
		cmd.Dir, cmd.Env = newcomersFolder(t, root, r.cmd.Path), environ
		cmd.WaitDelay = time.Second
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	r.stop()
}

// scriptOf joins the blocks of a document that are to be run. Each block prints its line
// number before it begins.
func scriptOf(t *testing.T, path string) (script string, blocks int) {
	t.Helper()
	text := must(os.ReadFile(path))
	for _, b := range documents.Blocks(string(text)) {
		if b.Shell() && b.NotRun == "" && b.OnlyMake() == nil {
			script += fmt.Sprintf("echo '--- line %d'\n%s\n", b.Line, b.Text)
			blocks++
		}
	}
	return script, blocks
}

// newcomersFolder has the files that the documents' commands name: bin/ledger, docs, a
// receipt and an export.
func newcomersFolder(t *testing.T, root, ledger string) string {
	t.Helper()
	home := t.TempDir()
	noErr(t, os.Mkdir(filepath.Join(home, "bin"), 0o700))
	for from, to := range map[string]string{ledger: "bin/ledger", filepath.Join(root, "docs"): "docs"} {
		noErr(t, os.Symlink(from, filepath.Join(home, to)))
	}
	for from, to := range map[string]string{"events/verify/testdata/receipt/good.json": "receipt.json", "events/verify/testdata/export/good.ndjson": "export.ndjson"} {
		text, err := os.ReadFile(filepath.Join(root, from))
		if err == nil {
			err = os.WriteFile(filepath.Join(home, to), text, 0o600)
		}
		noErr(t, err)
	}
	return home
}
