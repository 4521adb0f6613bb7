package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	memoryledger "github.com/memory-ledger/ledger/services/clients/go"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// The TypeScript client is tested against a running product, a lying service and a
// failing network. (`make client` tests it against the golden vectors.)
func TestTypeScriptClient(t *testing.T) {
	slow(t) // needs npm
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
	// The programs are in a folder of the package, so that the package's name means the
	// package itself.
	out := runReadme(t, dir, s, "js", filepath.Join(dir, "dist", "readme%d.mjs"), "node")
	if want := "I had oatmeal this morning\n0 I had oatmeal this morning\n"; out != want {
		t.Errorf("the README's lines print %s, want %s", out, want)
	}
}

// The packages for agent frameworks are tested against a running product, with the
// frameworks' own libraries.
func TestFrameworks(t *testing.T) {
	slow(t) // needs npm
	s := shared(t)
	buildClient(t)
	dir := "../../clients/frameworks"
	compiled(t, dir, npmBuild(dir))
	cmd := exec.CommandContext(t.Context(), "npm", "test")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CORE_URL="+s.Core[0].URL, "EXTENSION_URL="+s.Extension[0].URL)
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// runReadme runs the README's programs against a product: the first one makes a key with a
// wallet, and the others use that key. It returns what the others print.
func runReadme(t *testing.T, dir string, s *stacktest.Stack, language, path, interpreter string, env ...string) string {
	t.Helper()
	text := must(os.ReadFile(filepath.Join(dir, "README.md")))
	programs := strings.Split(string(text), "```"+language+"\n")[1:]
	if len(programs) < 2 {
		t.Fatalf("the README has %d programs", len(programs))
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
	key, printed := "", ""
	for n, program := range programs {
		lines, _, _ := strings.Cut(program, "```")
		file := fmt.Sprintf(path, n)
		noErr(t, os.WriteFile(file, []byte(strings.Replace(lines, "http://127.0.0.1:3001", s.Core[0].URL, 1)), 0o600))
		cmd := exec.CommandContext(t.Context(), interpreter, file)
		cmd.Dir, cmd.Env = home, append(append(os.Environ(), env...), "LEDGER_API_KEY="+key)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("the README's program %d: %v\n%s", n, err, out)
		}
		if n == 0 {
			key = strings.TrimSpace(string(out))
		} else {
			printed += string(out)
		}
	}
	return printed
}

// The Python client is tested against a running product, a lying service and a failing
// network. (`make python` tests it against the golden vectors.)
func TestPythonClient(t *testing.T) {
	slow(t) // needs Python with packages
	t.Parallel()
	python := findPython(t)
	dir := must(filepath.Abs("../../clients/python"))
	s, chain := anchoredStack(t, 100*time.Millisecond)
	network := &badNetwork{target: s.Core[0].URL}
	cut, _ := cuttingProxy(t, s.Core[0].URL)
	heads := memoryledger.FileHeads(filepath.Join(t.TempDir(), "heads.json"))
	cmd := exec.CommandContext(t.Context(), python, "-m", "unittest", "tests.stack")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "CORE_URL="+s.Core[0].URL, "EXTENSION_URL="+s.Extension[0].URL, "RPC_URL="+chain.URL(),
		"BAD_URL="+network.start(t), "CUT_URL="+cut, "HEADS="+string(heads), fmt.Sprint("WRITES=", networkWrites(t)))
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// The Go client goes on with the heads that the Python client kept.
	for owner := range decode[map[string]any](t, must(os.ReadFile(string(heads)))) {
		if head := must(heads.Load(t.Context(), owner)); head == nil || head.Size != 7 || head.Root == (memoryledger.Hash{}) {
			t.Errorf("%+v", head)
		}
	}
	network.metAll(t)
	out := runReadme(t, dir, s, "py", filepath.Join(t.TempDir(), "readme%d.py"), python, "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+dir)
	want := "I had porridge this morning\n0 I had oatmeal this morning\n1 I had porridge this morning\nOwnerRegistered\nAda prefers tea\n"
	if out != want {
		t.Errorf("the README's programs print %s, want %s", out, want)
	}
}

// findPython finds a Python that has what the client's tests need.
func findPython(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), python, "-c", "import sys, cryptography; sys.exit(sys.version_info < (3, 10))").Run() == nil {
			return python
		}
	}
	stacktest.Lacking(t, "no Python 3.10 with cryptography is here: make deps installs it")
	return ""
}

// clientBuilt is a OnceValue because one test runs the client while another one begins.
var clientBuilt = sync.OnceValue(func() error { return npmBuild(clientFolder) })

const clientFolder = "../../clients/typescript"

// buildClient compiles the client in place.
func buildClient(t *testing.T) string {
	t.Helper()
	return compiled(t, clientFolder, clientBuilt())
}

// compiled returns the full path of a folder, and skips or ends the test if it is not compiled.
func compiled(t *testing.T, folder string, err error) string {
	t.Helper()
	if errors.Is(err, fs.ErrNotExist) {
		stacktest.Lacking(t, err.Error()+": make slow installs it")
	}
	noErr(t, err)
	return must(filepath.Abs(folder))
}

// npmBuild compiles the packages of a folder. It does not install what they need: tests of
// several packages use the folder at the same time.
func npmBuild(folder string) error {
	if _, err := os.Stat(filepath.Join(folder, "node_modules")); err != nil {
		return err
	}
	cmd := exec.Command("npm", "run", "build")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm run build in %s: %w\n%s", folder, err, out)
	}
	return nil
}
