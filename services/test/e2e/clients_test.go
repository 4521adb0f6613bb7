package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The TypeScript client is held to the golden vectors and to a running product, with
// a service that lies and a network that fails.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	dir := buildClient(t)
	s, chain := anchoredStack(t, 100*time.Millisecond)
	cmd := exec.CommandContext(t.Context(), "node", "--test", "test/vectors.test.mjs", "test/e2e/stack.test.mjs")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CORE_URL="+s.Core[0].URL, "EXTENSION_URL="+s.Extension[0].URL, "RPC_URL="+chain.URL())
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// buildClient compiles the client where it stands. The compiler is installed first
// where it is missing.
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

// lackingNode skips a test, and fails it in CI, where a skipped test would go unnoticed.
func lackingNode(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}
