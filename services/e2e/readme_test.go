package e2e_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
)

// TestREADME runs the commands that README.md shows, as a newcomer would: in a
// folder that has bin/ledger and docs, beside a local run. The two make
// commands are what CI and this test's own run stand for.
func TestREADME(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl", "node", "psql"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := shellBlocks(string(readme))
	if len(blocks) < 4 {
		t.Fatalf("only %d shell blocks in README.md", len(blocks))
	}
	dir := filepath.Join(pgtest.Folder(t), "data")
	r := startRun(t, dir)
	core, _ := r.clients()
	home := newcomersFolder(t, root, r.cmd.Path)
	ran := 0
	for _, block := range blocks {
		if strings.HasPrefix(block, "make ") {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", strings.ReplaceAll(block, "http://127.0.0.1:3001", core.URL))
		cmd.Dir = home
		cmd.Env = append(os.Environ(), "LEDGER_DATA_DIR="+dir, "CORE_URL="+core.URL)
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			t.Errorf("%s\n%v\n%s", block, err, out)
		}
		ran++
	}
	if ran < 4 {
		t.Errorf("only %d blocks were run", ran)
	}
	r.stop()
}

// newcomersFolder has what the README's commands name.
func newcomersFolder(t *testing.T, root, ledger string) string {
	t.Helper()
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{ledger: "bin/ledger", filepath.Join(root, "docs"): "docs"} {
		if err := os.Symlink(from, filepath.Join(home, to)); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

// shellBlocks returns the contents of the fenced blocks marked sh.
func shellBlocks(markdown string) []string {
	var blocks []string
	for {
		_, rest, found := strings.Cut(markdown, "```sh\n")
		if !found {
			return blocks
		}
		block, after, _ := strings.Cut(rest, "```")
		blocks = append(blocks, strings.TrimSpace(block))
		markdown = after
	}
}
