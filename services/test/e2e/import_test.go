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

	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestImports: notes of other programs become memories, once, however often the import runs.
// A note that has changed supersedes what it said before.
func TestImports(t *testing.T) {
	l, ledger := newLife(t), stacktest.Program(t, stacktest.Ledger)
	key := l.core().Expect(201, "POST", "/keys", map[string]any{"label": "import"}, l.session).Text("key")
	run := func(args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, ledger, append([]string{"import"}, args...)...)
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "LEDGER_URL="+l.stack.Core[0].URL, "LEDGER_API_KEY="+key)
		out, err := cmd.Output()
		if err != nil && cmd.ProcessState.ExitCode() != 1 {
			t.Fatalf("%v: %v: %s", args, err, err.(*exec.ExitError).Stderr)
		}
		return string(out)
	}
	size := func() int { return l.core().Expect(200, "GET", "/log", nil, l.session).Number("treeSize") }

	vault := t.TempDir()
	const notes = 1000
	note := func(n int, text string) {
		t.Helper()
		dir := filepath.Join(vault, fmt.Sprint("project ", n%3))
		path := filepath.Join(dir, fmt.Sprintf("note %d.md", n))
		noErr(t, os.MkdirAll(dir, 0o700))
		noErr(t, os.WriteFile(path, []byte(fmt.Sprintf("---\ndate: %d-01-01\ntags: [n%d]\nsupersedes: ADR-1\n---\n%s", 1970+n%130, n%7, text)), 0o600))
	}
	for n := range notes {
		note(n, fmt.Sprintf("Note %d is about bees and \"quotes\"\n\tand ünïcödé.", n))
	}
	markdown := []string{"--from", vault, "--format", "markdown"}
	if out := run(append(markdown, "--dry-run")...); !strings.Contains(out, "1000 would be stored") || size() != 0 {
		t.Errorf("a dry run: %s, and %d leaves", out, size())
	}
	if out := run(markdown...); !strings.Contains(out, "1000 stored") || size() != notes {
		t.Errorf("the first run: %s, and %d leaves", out, size())
	}
	note(5, "Note 5 is about wasps.")
	if out := run(markdown...); !strings.Contains(out, "1 stored, 1 of them because they changed; 999 were there") || size() != notes+1 {
		t.Errorf("after a change: %s, and %d leaves", out, size())
	}
	if out := run(markdown...); !strings.Contains(out, "1000 were there") || size() != notes+1 {
		t.Errorf("again: %s, and %d leaves", out, size())
	}
	l.want("a day of a year", l.found(filter(map[string]any{"occurredFrom": "2099-01-01", "occurredTo": "2099-01-01", "namespace": "project 0", "tags": []string{"n3"}})),
		"Note 129 is about bees and \"quotes\"\n\tand ünïcödé.")
	l.want("what changed", l.found(map[string]any{"query": "Note 5", "mode": "ranked", "filter": map[string]any{"namespace": "project 2", "metadata": map[string]any{"title": "note 5"}}}),
		"Note 5 is about wasps.")

	lines := filepath.Join(t.TempDir(), "lines.txt")
	noErr(t, os.WriteFile(lines, []byte(strings.Repeat("the same line\n", 3)+"\x00\xff\nanother\n"), 0o600))
	if out := run("--from", lines, "--format", "text", "--namespace", "lines", "--source", "diary"); !strings.Contains(out, "2 stored") || !strings.Contains(out, "2 were there already, 1 are left out") || !strings.Contains(out, "lines.txt:4: it is not UTF-8") {
		t.Errorf("lines: %s", out)
	}
	l.want("lines", l.found(filter(map[string]any{"namespace": "lines", "source": "diary"})), "the same line", "another")
	for _, m := range decode[[]told](l, l.core().Expect(200, "POST", "/memories/search", filter(map[string]any{"namespace": "lines"}), l.session).Body) {
		l.core().Expect(200, "DELETE", "/memories/"+m.ID, nil, l.session)
	}
	run("--from", lines, "--format", "text", "--namespace", "lines", "--source", "diary")
	l.want("lines that were taken back and brought again", l.found(filter(map[string]any{"namespace": "lines"})), "the same line", "another")
}
