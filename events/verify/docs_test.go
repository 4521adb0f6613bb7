package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const (
	page  = "../../docs/audit.md"
	begin = "<!-- worked example, by make generate -->\n"
	end   = "<!-- end of the worked example -->\n"
)

// worked returns the example in the page: shell commands, each with its output.
func worked(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	r := good()
	l := leaves()[leafIndex]
	entry := string(must(l.Entry()))
	fmt.Fprintf(&out, "The entry, as RFC 8785 writes it, %d bytes:\n\n    %s\n\nIts leaf hash, a zero byte in front:\n\n", len(entry), entry)
	step := func(command string, hash Hash) {
		fmt.Fprintf(&out, "    %s | sha256sum\n    %s\n\n", command, hash)
	}
	step(fmt.Sprintf(`printf '\000%%s' '%s'`, entry), r.LeafHash)
	hash := r.LeafHash
	pair := func(left, right Hash) Hash {
		h := sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
		step(fmt.Sprintf("printf 01%s%s | xxd -r -p", left, right), h)
		return h
	}
	for i, sibling := range r.Siblings {
		side := "left"
		if r.Directions[i] {
			side = "right"
		}
		fmt.Fprintf(&out, "`siblings[%d]` is on the %s (`directions[%d]` is %v):\n\n", i, side, i, r.Directions[i])
		if r.Directions[i] {
			hash = pair(hash, sibling)
		} else {
			hash = pair(sibling, hash)
		}
	}
	if hash != r.BatchRoot {
		t.Fatalf("folds to %s, want %s", hash, r.BatchRoot)
	}
	out.WriteString("That is `batchRoot`.\n")
	return out.String()
}

func TestThePageIsInStep(t *testing.T) {
	raw, err := os.ReadFile(page)
	noErr(t, err)
	before, rest, found := strings.Cut(string(raw), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the example", page)
	}
	want := before + begin + "\n" + worked(t) + "\n" + end + after
	if *update {
		noErr(t, os.WriteFile(page, []byte(want), 0o644))
	} else if string(raw) != want {
		t.Errorf("%s is out of date: run make generate", page)
	}
	r := good()
	for _, h := range []Hash{r.BatchRoot, r.LeafHash} {
		if !strings.Contains(want, hex.EncodeToString(h[:])) {
			t.Errorf("%s does not show %s", page, h)
		}
	}
}

// The commands of the page print the documented output.
func TestThePagesCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("needs xxd: make verify runs it")
	}
	for _, tool := range []string{"sh", "sha256sum", "xxd"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is missing: make deps installs it", tool)
		}
	}
	lines := strings.Split(worked(t), "\n")
	for i, line := range lines {
		if !strings.HasSuffix(line, "| sha256sum") {
			continue
		}
		out, err := exec.Command("sh", "-c", strings.TrimSpace(line)).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), strings.TrimSpace(lines[i+1])) {
			t.Errorf("%s: %v, %s", line, err, out)
		}
	}
}
