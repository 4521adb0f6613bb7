package deployed_test

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

func addrOf(c *stacktest.Client) string { return strings.TrimPrefix(c.URL, "http://") }

// behind runs a stack with a gateway in front of it. One of the gateway's core servers
// does not exist.
func behind(t *testing.T) (*gateway, *stacktest.Client, *stacktest.Client) {
	t.Helper()
	nginxPath(t)
	s := stacktest.Start(t, stacktest.Options{})
	g := startGateway(t, []string{freeAddr(t), addrOf(s.Core[0])}, []string{addrOf(s.Extension[0])})
	return g, g.client(t, coreHost), g.client(t, extensionHost)
}

func TestGatewayPassesOn(t *testing.T) {
	t.Parallel()
	g, core, extension := behind(t)
	wallet := stacktest.NewWallet()
	session := core.SignIn(wallet)
	wrote := core.Expect(201, "POST", "/memories", map[string]any{"content": "through the gate", "metadata": map[string]any{}}, session)
	for range 20 { // the gateway may try either server first
		core.Expect(200, "GET", "/memories/"+wrote.Text("id"), nil, session)
	}
	extension.Expect(200, "GET", "/auth/me", nil, extension.SignIn(wallet))

	t.Run("request ids", func(t *testing.T) {
		for given, want := range map[string]string{"abc-1.2_3": `^abc-1\.2_3$`, "no good\"": `^[0-9a-f]{32}$`, "": `^[0-9a-f]{32}$`} {
			a := extension.Do("GET", "/auth/me", nil, stacktest.With("X-Request-Id", given))
			id := a.Header.Get("X-Request-Id")
			if !regexp.MustCompile(want).MatchString(id) || a.Text("requestId") != id || a.Status != 401 {
				t.Errorf("sent %q, got %q and %s", given, id, a.Body)
			}
			// The line is written after the answer.
			testkit.Await(t, "the gateway's log knows "+id, func() bool { return strings.Contains(g.log.String(), `"requestId":"`+id+`"`) })
		}
	})
	t.Run("headers", func(t *testing.T) {
		a := core.Expect(200, "GET", "/health", nil)
		for name, want := range map[string]string{
			"Strict-Transport-Security": "max-age=31536000", "X-Content-Type-Options": "nosniff",
			"X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
		} {
			if got := a.Header.Values(name); len(got) != 1 || got[0] != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if strings.Contains(a.Header.Get("Server"), "/") {
			t.Errorf("Server: %s tells a version", a.Header.Get("Server"))
		}
	})
	t.Run("the sign-in page", func(t *testing.T) {
		a := extension.Expect(200, "GET", "/connect?callback=chrome-extension://"+strings.Repeat("a", 32)+"/callback.html", nil)
		for _, name := range []string{"Referrer-Policy", "X-Request-Id", "Strict-Transport-Security"} {
			if got := a.Header.Values(name); len(got) != 1 {
				t.Errorf("%s: %q", name, got)
			}
		}
	})
	t.Run("the pages at grants' links", func(t *testing.T) {
		navigates := stacktest.With("Accept", "text/html")
		own := extension.SignIn(wallet)
		for _, path := range []string{"/memory-drops", "/agent-cases"} {
			made := extension.Expect(201, "POST", path, nil, own)
			link := path + made.Text("url")[strings.LastIndex(made.Text("url"), "/"):]
			for status, at := range map[int]string{200: link, 404: link[:len(link)-4] + "AAAA"} {
				a := extension.Expect(status, "GET", at, nil, navigates)
				for _, name := range []string{"Content-Security-Policy", "Referrer-Policy", "X-Request-Id"} {
					if got := a.Header.Values(name); len(got) != 1 {
						t.Errorf("%s: %q", name, got)
					}
				}
				if !strings.HasPrefix(string(a.Body), "<!doctype html>") {
					t.Errorf("%d: %s", status, a.Body)
				}
			}
		}
		extension.Expect(404, "GET", "/auth/sessions", nil) // a route of the core API only
		core.Expect(200, "DELETE", "/auth/sessions", nil, session)
		extension.Expect(401, "GET", "/auth/me", nil, own)
	})
	t.Run("insides stay inside", func(t *testing.T) {
		for _, path := range []string{"/metrics", "/readyz"} {
			wantJSON(t, core.Expect(404, "GET", path, nil))
			wantJSON(t, extension.Expect(404, "GET", path, nil))
		}
	})
	t.Run("large bodies", func(t *testing.T) {
		large := `{"content":"` + strings.Repeat("x", 1<<20) + `"}`
		wantJSON(t, core.Expect(413, "POST", "/memories", large, session))
		// An export goes past the gateway, and the service refuses it.
		wantJSON(t, core.Expect(400, "POST", "/import", strings.Repeat("no export\n", 1<<18), session))
	})
	t.Run("wrong hosts", func(t *testing.T) { wrongHosts(t, g, core) })
}

func wantJSON(t *testing.T, a stacktest.Answer) {
	t.Helper()
	var body struct{ Error string }
	if err := json.Unmarshal(a.Body, &body); err != nil || body.Error == "" || !strings.HasPrefix(a.Header.Get("Content-Type"), "application/json") {
		t.Errorf("status %d: %s %q is not an error in JSON", a.Status, a.Header.Get("Content-Type"), a.Body)
	}
	if a.Header.Get("X-Request-Id") == "" {
		t.Errorf("status %d: no request id", a.Status)
	}
}

// wrongHosts checks that the gateway refuses a handshake without a known name, and that
// the name of one API does not reach the other API.
func wrongHosts(t *testing.T, g *gateway, core *stacktest.Client) {
	for _, name := range []string{"elsewhere.test", ""} {
		conn, err := tls.Dial("tcp", g.addr, &tls.Config{ServerName: name, InsecureSkipVerify: true}) //nolint:gosec // it must not get that far
		if err == nil {
			conn.Close()
			t.Errorf("%q: got a handshake", name)
		}
	}
	request, err := http.NewRequest("GET", "https://"+coreHost+"/health", nil)
	must(t, err)
	request.Host = extensionHost
	answer, err := core.HTTP.Do(request)
	must(t, err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("status %d for a host that the handshake did not name", answer.StatusCode)
	}
	if a, err := http.Get("http://" + g.addr + "/health"); err == nil && a.StatusCode == http.StatusOK {
		t.Error("answers without TLS")
	}
}

// Each limit has a burst. Requests beyond it get a 429. Other routes and other
// owners are still served.
func TestGatewayLimits(t *testing.T) {
	t.Parallel()
	_, core, extension := behind(t)
	session := core.SignIn(stacktest.NewWallet())
	other := core.SignIn(stacktest.NewWallet())
	extensionSession := extension.SignIn(stacktest.NewWallet())
	write := map[string]any{"content": "x", "metadata": map[string]any{}}
	for _, limit := range []struct {
		name   string
		client *stacktest.Client
		path   string
		method string
		body   any
		who    stacktest.Header
		burst  int // at least this many pass at once
		sent   int
	}{
		{"search", core, "/memories/search", "POST", map[string]any{"query": "x"}, session, 10, 60},
		{"drops", extension, "/memory-drops/svc_drop_x", "POST", map[string]any{"content": "x"}, stacktest.With("X-None", ""), 20, 60},
		{"agents", core, "/mcp", "POST", map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, session, 30, 150},
		{"writes", core, "/memories", "POST", write, session, 100, 500},
		{"lists", core, "/memories?limit=1", "GET", nil, session, 20, 100},
		{"keys", core, "/keys", "GET", nil, session, 20, 60},
		{"consent", core, "/oauth/authorize", "GET", nil, stacktest.With("X-None", ""), 20, 60},
		{"mints", extension, "/memory-drops", "POST", nil, extensionSession, 20, 60},
		{"challenges", core, "/auth/challenge", "POST", map[string]any{"publicKey": "x"}, stacktest.With("X-None", ""), 2, 40},
	} {
		t.Run(limit.name, func(t *testing.T) {
			passed, refused := rush(limit.client, limit.method, limit.path, limit.body, limit.who, limit.sent)
			if len(refused) == 0 || passed < limit.burst {
				t.Fatalf("%d passed, %d were refused", passed, len(refused))
			}
			wantJSON(t, refused[0])
			if refused[0].Header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		})
	}
	core.Expect(200, "GET", "/log", nil, session)
	core.Expect(200, "GET", "/memories?limit=1", nil, other) // another owner is not limited by it
	core.Expect(201, "POST", "/memories", write, other)
	core.Expect(200, "POST", "/memories/search", map[string]any{"query": "x"}, other)
}

// rush sends about n requests as fast as it can.
func rush(c *stacktest.Client, method, path string, body any, who stacktest.Header, n int) (passed int, refused []stacktest.Answer) {
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for range n/16 + 1 {
				a := c.Do(method, path, body, who)
				mu.Lock()
				if a.Status == http.StatusTooManyRequests {
					refused = append(refused, a)
				} else {
					passed++
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return passed, refused
}

// A gateway with no service behind it answers 503, in the form that the services use.
func TestGatewayAlone(t *testing.T) {
	t.Parallel()
	g := startGateway(t, []string{freeAddr(t)}, []string{freeAddr(t)})
	a := g.client(t, coreHost).Expect(503, "GET", "/health", nil)
	wantJSON(t, a)
	if a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

// TestGatewayRefusalsAreReadable: a browser may read the gateway's own refusals if it may
// read the service's answers. A browser extension then sees a status, not a network
// error.
func TestGatewayRefusalsAreReadable(t *testing.T) {
	t.Parallel()
	away := startGateway(t, []string{freeAddr(t)}, []string{freeAddr(t)})
	c := away.client(t, extensionHost)
	// Over HTTP/2, nginx ends the connection instead of answering 431.
	old := away.client(t, extensionHost)
	old.HTTP.Transport.(*http.Transport).ForceAttemptHTTP2 = false
	slow := func(origin string) stacktest.Answer {
		_, refused := rush(c, "POST", "/memory-drops/svc_drop_x", nil, stacktest.With("Origin", origin), 60)
		if len(refused) == 0 {
			t.Fatal("nothing was refused")
		}
		return refused[0]
	}
	for origin, readable := range map[string]bool{"https://page.test": true, "https://app.test": false, "chrome-extension://abcdefghijklmnopabcdefghijklmnop": false} {
		a := away.client(t, coreHost).Expect(503, "GET", "/health", nil, stacktest.With("Origin", origin))
		if allowed := a.Header.Values("Access-Control-Allow-Origin"); readable != (len(allowed) == 1 && allowed[0] == origin) {
			t.Errorf("core, %s: allowed %q", origin, allowed)
		}
	}
	for origin, readable := range map[string]bool{
		"https://app.test":                                    true,
		"https://other.test:8443":                             true,
		"https://core.test":                                   true, // the dashboard's origin
		"https://core.test:8443":                              true,
		"chrome-extension://abcdefghijklmnopabcdefghijklmnop": true,
		"https://other.test":                                  false,
		"https://app.test.evil.test":                          false,
		"https://coreXtest":                                   false,
		"https://evil.test,|https://evil.test":                false,
		"chrome-extension://a.b":                              false,
		"null":                                                false,
	} {
		long := stacktest.With("X-Long", strings.Repeat("x", 40000))
		for want, a := range map[int]stacktest.Answer{
			404: c.Do("GET", "/metrics", nil, stacktest.With("Origin", origin)),
			413: c.Do("POST", "/memories", `{"content":"`+strings.Repeat("x", 1<<20)+`"}`, stacktest.With("Origin", origin)),
			431: old.Do("GET", "/health", nil, stacktest.With("Origin", origin), long),
			503: c.Do("GET", "/health", nil, stacktest.With("Origin", origin)),
			429: slow(origin),
		} {
			if a.Status != want {
				t.Errorf("%s: status %d, want %d: %s", origin, a.Status, want, a.Body)
				continue
			}
			wantJSON(t, a)
			allowed, exposed := a.Header.Values("Access-Control-Allow-Origin"), a.Header.Get("Access-Control-Expose-Headers")
			if readable && (len(allowed) != 1 || allowed[0] != origin || !strings.Contains(exposed, "Retry-After")) || !readable && (len(allowed) != 0 || exposed != "") {
				t.Errorf("status %d for %s: allowed %q, exposed %q", want, origin, allowed, exposed)
			}
			if a.Header.Get("Vary") != "Origin" {
				t.Errorf("status %d: a cache may show it to another origin", want)
			}
		}
	}
}
