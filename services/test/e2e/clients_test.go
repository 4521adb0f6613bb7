package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// The TypeScript client is tested against a running product, a lying service and a
// failing network. (`make client` tests it against the golden vectors.)
func TestTypeScriptClient(t *testing.T) {
	if testing.Short() {
		t.Skip("installs the compiler: make verify runs it")
	}
	t.Parallel()
	dir := buildClient(t)
	s, chain := anchoredStack(t, 100*time.Millisecond)
	cmd := exec.CommandContext(t.Context(), "node", "--test", "--test-timeout=300000", "test/e2e/stack.test.mjs")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CORE_URL="+s.Core[0].URL, "EXTENSION_URL="+s.Extension[0].URL, "RPC_URL="+chain.URL(), fmt.Sprint("WRITES=", networkWrites(t)))
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	runReadme(t, dir, s)
}

// runReadme runs the README's programs against a product: one makes a key with a wallet, and
// the other one uses that key.
func runReadme(t *testing.T, dir string, s *stacktest.Stack) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "README.md"))
	noErr(t, err)
	programs := strings.Split(string(text), "```js\n")[1:]
	if len(programs) != 2 {
		t.Fatalf("the README has %d blocks of JavaScript", len(programs))
	}
	home := t.TempDir()
	wallet := must(json.Marshal(slices.Collect(func(yield func(int) bool) {
		for _, b := range newKeyWallet(t) {
			if !yield(int(b)) {
				return
			}
		}
	})))
	noErr(t, os.WriteFile(filepath.Join(home, "wallet.json"), wallet, 0o600))
	out := ""
	for n, program := range programs {
		lines, _, _ := strings.Cut(program, "```")
		// The program is in a folder of the package, so that the package's name means the
		// package itself.
		file := filepath.Join(dir, "dist", fmt.Sprintf("readme%d.mjs", n))
		noErr(t, os.WriteFile(file, []byte(strings.Replace(lines, "http://127.0.0.1:3001", s.Core[0].URL, 1)), 0o600))
		cmd := exec.CommandContext(t.Context(), "node", file)
		cmd.Dir, cmd.Env = home, append(os.Environ(), "LEDGER_API_KEY="+strings.TrimSpace(out))
		text, err := cmd.CombinedOutput()
		if out = string(text); err != nil {
			t.Fatalf("the README's program %d: %v\n%s", n, err, out)
		}
	}
	if want := "I had oatmeal this morning\n0 I had oatmeal this morning\n"; out != want {
		t.Errorf("the README's lines print %s, want %s", out, want)
	}
}

// buildClient compiles the client in place. It installs the compiler first if it is
// missing.
func buildClient(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../clients/typescript")
	noErr(t, err)
	if _, err := exec.LookPath("npm"); err != nil {
		stacktest.Lacking(t, "npm is not here: install Node 20 or newer")
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "typescript")); err != nil {
		install := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
		install.Dir = dir
		if out, err := install.CombinedOutput(); err != nil {
			stacktest.Lacking(t, "npm can't install the compiler: "+err.Error()+"\n"+string(out))
		}
	}
	build := exec.CommandContext(t.Context(), "npm", "run", "build")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}
