package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// runReadme runs the lines of the client's README against a product.
func runReadme(t *testing.T, dir string, s *stacktest.Stack) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "```js\n")
	lines, _, closed := strings.Cut(after, "```")
	if !found || !closed {
		t.Fatal("the README has no block of JavaScript")
	}
	core := s.Core[0]
	key := core.Expect(201, "POST", "/keys", map[string]any{"label": "readme"}, core.SignIn(stacktest.NewWallet())).Text("key")
	// The program is in a folder of the package, so that the package's name means the
	// package itself.
	program := filepath.Join(dir, "dist", "readme.mjs")
	if err := os.WriteFile(program, []byte(strings.Replace(lines, "http://127.0.0.1:3001", core.URL, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", program)
	cmd.Env = append(os.Environ(), "LEDGER_API_KEY="+key)
	out, err := cmd.CombinedOutput()
	if want := "I had oatmeal this morning\n0 I had oatmeal this morning\n"; err != nil || string(out) != want {
		t.Errorf("the README's lines: %v, got %s, want %s", err, out, want)
	}
}

// buildClient compiles the client in place. It installs the compiler first if it is
// missing.
func buildClient(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../clients/typescript")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("npm"); err != nil {
		lackingNode(t, "npm is not here: install Node 20 or newer")
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "typescript")); err != nil {
		install := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
		install.Dir = dir
		if out, err := install.CombinedOutput(); err != nil {
			lackingNode(t, "npm can't install the compiler: "+err.Error()+"\n"+string(out))
		}
	}
	build := exec.CommandContext(t.Context(), "npm", "run", "build")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// lackingNode skips a test, or fails it in CI, where a skipped test would go unnoticed.
func lackingNode(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}
