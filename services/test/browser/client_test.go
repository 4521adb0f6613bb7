package browser

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// clientSetting is the input of the driver of the client's tests.
type clientSetting struct {
	API      string         `json:"api"`
	Site     string         `json:"site"`     // serves the client's folder from its own origin
	Stranger string         `json:"stranger"` // the same, from an origin that the core API does not allow
	Client   string         `json:"client"`   // the client's folder
	Key      string         `json:"key"`      // of the owner of Memory
	Memory   map[string]any `json:"memory"`
	Chromium string         `json:"chromium"`
	Modules  string         `json:"modules"`
}

// TestClientInChromium tries the TypeScript client's tests and its example page in a page
// whose origin the core API allows.
func TestClientInChromium(t *testing.T) {
	slow(t) // starts a browser
	t.Parallel()
	s := clientSetting{Chromium: chromium(t, windowless), Modules: modules(t), Client: clientFolder(t)}
	compiled := compileClient(t, s.Client)
	s.Site, s.Stranger = clientSite(t, s.Client, compiled), clientSite(t, s.Client, compiled)
	core := startCore(t, s.Site)
	s.API = core.URL
	session := core.SignIn(stacktest.NewWallet())
	content := "Moved the hives to the orchard ☂"
	written := core.Expect(201, "POST", "/memories", map[string]any{"content": content}, session)
	s.Memory = map[string]any{"id": written.Text("id"), "leafHash": written.Text("leafHash"), "content": content}
	s.Key = core.Expect(201, "POST", "/keys", map[string]any{"label": "page"}, session).Text("key")
	told, err := json.Marshal(s)
	must(t, err)
	runNode(t, []string{"BROWSER_TEST=" + string(told)}, "node", filepath.Join("testdata", "client", "driver.mjs"))
}

// TestClientInOtherRuntimes tries the client's tests in Node, Deno and Bun.
func TestClientInOtherRuntimes(t *testing.T) {
	slow(t) // installs two runtimes
	t.Parallel()
	dir := clientFolder(t)
	compiled, core := compileClient(t, dir), startCore(t, "")
	runtimes := filepath.Join(dir, "test", "runtimes")
	install := npmCI(t, runtimes)
	for name, args := range map[string][]string{
		"node": {"node"},
		"deno": {filepath.Join(runtimes, "node_modules", "@deno", "*", "deno"), "run", "--allow-all", "--no-config"},
		"bun":  {filepath.Join(runtimes, "node_modules", "@oven", "*", "bin", "bun")},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "node" {
				found, err := filepath.Glob(args[0])
				if err != nil || len(found) == 0 {
					stacktest.Lacking(t, name+" can't be had from npm: "+install)
				}
				args[0] = found[0]
			}
			runNode(t, nil, append(args, filepath.Join(dir, "test", "runtime.mjs"), filepath.Join(compiled, "index.js"), core.URL)...)
		})
	}
}

// startCore runs the product. Pages of the origin may call its core API.
func startCore(t *testing.T, origin string) *stacktest.Client {
	t.Helper()
	return stacktest.Start(t, stacktest.Options{Configure: func(c *config.Config) {
		if origin != "" {
			c.CoreAllowedOrigins = []string{origin}
		}
	}}).Core[0]
}

func clientFolder(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../clients/typescript")
	must(t, err)
	return dir
}

// compileClient compiles the client into a temporary folder, because other tests compile
// it in the client's own folder.
func compileClient(t *testing.T, dir string) string {
	t.Helper()
	compiler := filepath.Join(dir, "node_modules", "typescript", "bin", "tsc")
	if _, err := os.Stat(compiler); err != nil {
		stacktest.Lacking(t, err.Error()+": make slow installs it")
	}
	out := t.TempDir()
	runNode(t, nil, "node", compiler, "-p", dir, "--outDir", out)
	// Without this package.json, the runtimes would not take the files for modules.
	must(t, os.WriteFile(filepath.Join(out, "package.json"), []byte(`{"type": "module"}`), 0o600))
	return out
}

// npmCI installs the packages of a folder's lock file, unless node_modules exists. It
// returns npm's output, or why npm failed.
func npmCI(t *testing.T, dir string) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err == nil {
		return "node_modules has none"
	}
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return err.Error() + "\n" + string(out)
	}
	return string(out)
}

// clientSite serves the client's folder, with the compiled files as its dist, and an
// empty page.
func clientSite(t *testing.T, dir, compiled string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(dir)))
	mux.Handle("/dist/", http.StripPrefix("/dist/", http.FileServer(http.Dir(compiled))))
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<!doctype html><title>A site</title>"))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// runNode runs a program to its end. Its input stays open until this process ends, so
// that a browser that the program started ends with this process.
func runNode(t *testing.T, env []string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env, cmd.WaitDelay = append(os.Environ(), env...), time.Second
	input, err := cmd.StdinPipe()
	must(t, err)
	defer func() { _ = input.Close() }()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(args[0]), err, out)
	}
	t.Logf("%s", out)
}
