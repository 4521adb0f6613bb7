package e2e_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gagliardetto/solana-go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/core"
	"github.com/memory-ledger/ledger/services/extension"
	"github.com/memory-ledger/ledger/services/httpapi"
	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/test/contracttest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// needsChain lists the only documented answers that TestEveryDocumentedAnswer does not
// get on a machine without Node: they need live staking, which needs a chain.
var needsChain = []contracttest.Answer{
	{Operation: "stake", Status: 200}, {Operation: "stake", Status: 415},
	{Operation: "unstake", Status: 200}, {Operation: "unstake", Status: 415},
}

// TestEveryDocumentedAnswer makes each operation of both APIs give every answer that its
// document lists. The clients check the form of the answers against the documents; this
// test checks that each answer occurs. An answer that can't occur does not belong in a
// document.
func TestEveryDocumentedAnswer(t *testing.T) {
	t.Parallel()
	everyOperation := func(do func(api contracttest.API, op contracttest.Operation)) {
		for _, api := range []contracttest.API{contracttest.Core, contracttest.Extension} {
			operations, err := contracttest.Operations(api)
			noErr(t, err)
			for _, op := range operations {
				do(api, op)
			}
		}
	}
	for name, part := range map[string]func(*testing.T, func(func(contracttest.API, contracttest.Operation))){
		"refused at the wire": answersAtTheWire, "faults": answersToFaults, "good and bad requests": answersToRequests,
		"log down": answersWithoutLog, "over quota": answersOverQuota, "key destroyed": answersWithoutKey, "closed": answersToNewOwners,
	} {
		t.Run(name, func(t *testing.T) { part(t, everyOperation) })
	}
	chain := false
	t.Run("staking", func(t *testing.T) {
		answersOfStaking(t)
		chain = true
	})
	for _, api := range []contracttest.API{contracttest.Core, contracttest.Extension} {
		missing, err := contracttest.Unseen(api)
		noErr(t, err)
		for _, answer := range missing {
			if chain || api != contracttest.Core || !slices.Contains(needsChain, answer) {
				t.Errorf("%s API: no %s answered %d: make one do so, or take it out of the document", api, answer.Operation, answer.Status)
			}
		}
	}
}

// elsewhere is the path of a resource that does not exist, but could.
const elsewhere = "/019ca8d2-7b02-7d18-8f3e-6a1c2b3d4e02"

// parameters fills in a path with such resources.
var parameters = strings.NewReplacer("{id}", elsewhere[1:], "{file}", "style.css", "{token}", "svc_case_"+strings.Repeat("A", 43))

// requestOf returns a method and a path of an operation.
func requestOf(op contracttest.Operation) (method, path string) {
	if op.Method == "*" {
		return http.MethodGet, "/nope"
	}
	path = parameters.Replace(op.Path)
	if strings.HasPrefix(path, "/memory-drops") {
		path = strings.Replace(path, "svc_case_", "svc_drop_", 1)
	}
	return op.Method, path
}

// navigates is the header with which a browser requests a page.
var navigates = stacktest.With("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")

// headersOf returns the headers that an operation needs besides a credential.
func headersOf(op contracttest.Operation) stacktest.Header {
	switch op.ID {
	case "showDrop", "showConsent":
		return navigates
	case "exchangeToken", "revokeToken":
		return asForm
	case "importLog":
		return ndjson
	}
	return func(http.Header) {}
}

// goodBody returns a body that an operation accepts, or nil if it takes none.
func goodBody(op contracttest.Operation, wallet stacktest.Wallet) any {
	switch op.ID {
	case "createChallenge":
		return map[string]any{"publicKey": wallet.PublicKey}
	case "createMemory":
		return map[string]any{"content": "x", "source": "s"}
	case "createMemories":
		return map[string]any{"memories": []any{map[string]any{"content": "x"}}}
	case "fillDrop":
		return map[string]any{"content": "x"}
	case "createKey":
		return map[string]any{"label": "x"}
	case "registerApp":
		return map[string]any{"redirect_uris": []string{"https://assistant.example/callback"}}
	case "exchangeToken":
		return "grant_type=refresh_token&refresh_token=x&client_id=x"
	case "revokeToken":
		return "token=x"
	case "stake", "unstake":
		return map[string]any{"amount": "1"}
	case "callAgentTools":
		return map[string]any{"jsonrpc": "2.0", "id": 1, "method": "ping"}
	case "mintCase", "mintDrop", "searchMemories", "allowApp":
		return map[string]any{}
	case "importLog":
		return emptyExport(wallet.PublicKey)
	}
	return nil
}

// emptyExport is the export of a log without leaves.
func emptyExport(owner string) string {
	return `{"format":"memory-ledger/export/1","owner":"` + owner + `","treeSize":0,` +
		`"root":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","anchor":null}` + "\n" + `{"complete":true,"leaves":0}` + "\n"
}

func queryOf(op contracttest.Operation) string {
	switch op.ID {
	case "getConsistency":
		return "?from=0&to=0"
	case "getConnectPage":
		return "?callback=chrome-extension%3A%2F%2Fabcdefghijklmnopabcdefghijklmnop%2Fcallback.html"
	}
	return ""
}

// serveBare runs an API with nothing behind it: a request that passes the API meets a
// fault. Requests must arrive within patience.
func serveBare(t *testing.T, api contracttest.API, patience time.Duration) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	noErr(t, err)
	serveBareOn(t, listener, api, patience)
	return listener.Addr().String()
}

// serveBareOn is serveBare on a listener, until the test ends or stop is called.
func serveBareOn(t *testing.T, listener net.Listener, api contracttest.API, patience time.Duration) (stop func()) {
	t.Helper()
	documents := map[contracttest.API][]byte{contracttest.Core: core.OpenAPI, contracttest.Extension: extension.OpenAPI}
	app := httpapi.New(httpapi.Config{
		Service: string(api), Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		OpenAPI: documents[api], ShowCauses: api == contracttest.Extension, NewID: func() string { return "id" },
		Probes: []httpapi.Probe{{Name: "fault", Check: func(context.Context) error { panic("a probe with a fault") }}},
	})
	ctx, stop := context.WithCancel(context.Background())
	if api == contracttest.Core {
		bare := &core.API{}
		bare.Mount(app)
		go bare.Run(ctx)
	} else {
		(&extension.API{}).Mount(app)
	}
	app.Server().ReadTimeout = patience
	ended := make(chan error, 1)
	go func() { ended <- app.Serve(ctx, listener, time.Second) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return stop
}

// begun is a listener that tracks requests until they have partly arrived.
type begun struct {
	net.Listener
	requests sync.WaitGroup
}

func (l *begun) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return &begunConn{Conn: conn, of: l}, err
}

type begunConn struct {
	net.Conn
	of    *begun
	reads int
}

func (c *begunConn) Read(p []byte) (int, error) {
	if c.reads++; c.reads == 2 {
		c.of.requests.Done()
	}
	return c.Conn.Read(p)
}

// wire sends raw instead of the request, for bytes that no HTTP client would send. The
// request only describes raw to the Transport above it. When the request's context
// ends, the connection closes.
type wire struct {
	addr string
	raw  string
}

// RoundTrip implements http.RoundTripper.
func (w wire) RoundTrip(request *http.Request) (*http.Response, error) {
	conn, err := net.DialTimeout("tcp", w.addr, 20*time.Second)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(request.Context(), func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	// Send in the background: the answer may arrive before all bytes are sent, and the
	// server reads nothing after its answer.
	go func() { _, _ = fmt.Fprint(conn, w.raw) }()
	answer, err := http.ReadResponse(bufio.NewReader(conn), request)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return answer, nil
}

// answersAtTheWire: requests that the server refuses before any route sees them.
func answersAtTheWire(t *testing.T, every func(func(contracttest.API, contracttest.Operation))) {
	patient, hurried, stopping := map[contracttest.API]string{}, map[contracttest.API]string{}, map[contracttest.API]*begun{}
	var stops []func()
	for _, api := range []contracttest.API{contracttest.Core, contracttest.Extension} {
		patient[api], hurried[api] = serveBare(t, api, time.Minute), serveBare(t, api, 200*time.Millisecond)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		noErr(t, err)
		stopping[api] = &begun{Listener: listener}
		stops = append(stops, serveBareOn(t, stopping[api], api, time.Minute))
	}
	raws := map[int]string{
		400: "Content-Length: many\r\n\r\n",
		408: "X-Unfinished: ",
		413: "Content-Length: 1048577\r\n\r\n" + strings.Repeat("x", 8<<10),
		431: "X-Large: " + strings.Repeat("x", 20<<10) + "\r\n\r\n",
		503: "X-Unfinished: ", // until the service stops
	}
	var group sync.WaitGroup
	defer group.Wait()
	every(func(api contracttest.API, op contracttest.Operation) {
		method, path := requestOf(op)
		for status, raw := range raws {
			addr := patient[api]
			switch status {
			case http.StatusRequestTimeout:
				addr = hurried[api]
			case http.StatusServiceUnavailable:
				addr = stopping[api].Addr().String()
				stopping[api].requests.Add(1)
			}
			group.Go(func() {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				request, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if op.ID == "importLog" {
					raw = strings.Replace(raw, "1048577", "4294967297", 1)
				}
				exact := wire{addr, method + " " + path + " HTTP/1.1\r\nHost: x\r\n" + raw}
				answer, err := contracttest.Transport(t, api, exact).RoundTrip(request)
				if err != nil {
					t.Errorf("%s %s: want %d: %v", method, path, status, err)
					return
				}
				_ = answer.Body.Close()
				if answer.StatusCode != status {
					t.Errorf("%s %s: status %d, want %d", method, path, answer.StatusCode, status)
				}
			})
		}
	})
	for _, listener := range stopping {
		listener.requests.Wait()
	}
	for _, stop := range stops {
		stop()
	}
}

// answersToFaults: a fault anywhere behind the API gives a 500 that reveals nothing about
// the fault. Operations with nothing behind them have no faults.
func answersToFaults(t *testing.T, every func(func(contracttest.API, contracttest.Operation))) {
	clients := map[contracttest.API]*stacktest.Client{}
	credentials := map[contracttest.API]stacktest.Header{
		contracttest.Core:      stacktest.Bearer("some.signed.session"),
		contracttest.Extension: stacktest.Bearer("svc_session_" + strings.Repeat("A", 43)),
	}
	for _, api := range []contracttest.API{contracttest.Core, contracttest.Extension} {
		clients[api] = stacktest.NewClient(t, api, "http://"+serveBare(t, api, time.Minute))
	}
	wallet := stacktest.NewWallet()
	every(func(api contracttest.API, op contracttest.Operation) {
		method, path := requestOf(op)
		body := goodBody(op, wallet)
		if signed(op) {
			body = wallet.Answer(someChallenge(wallet))
		}
		want := 500
		switch {
		case op.Method == "*" || op.ID == "getHome" || op.ID == "getDashboardHome": // for browsers
			want = 404
		case !slices.Contains(op.Statuses, 500):
			want = 200
		}
		a := clients[api].Expect(want, method, path+queryOf(op), body, credentials[api], headersOf(op))
		if bytes.Contains(a.Body, []byte("nil pointer")) {
			t.Errorf("%s: %s", op.ID, a.Body)
		}
		switch {
		case op.ID == "showDrop": // a page for people
			isPage(t, a, "Memory Ledger can't answer now")
		case op.ID == "showConsent": // another one
			if !bytes.Contains(a.Body, []byte("<h1>Memory Ledger can't answer now</h1>")) {
				t.Errorf("not a page: %s", a.Body)
			}
		case want == 500 && cmp.Or(a.Text("error_description"), a.Text("error")) != "internal error":
			t.Errorf("%s: %s", op.ID, a.Body)
		}
	})
}

// signed reports whether an operation takes a challenge that a wallet has signed.
func signed(op contracttest.Operation) bool { return op.ID == "createSession" || op.ID == "eraseOwner" }

// someChallenge has the form of a challenge, but was never issued.
func someChallenge(wallet stacktest.Wallet) string {
	return "127.0.0.1 wants you to sign in with your Solana account:\n" + wallet.PublicKey + "\n\nStatement.\n\n" +
		"URI: http://127.0.0.1\nVersion: 1\nChain ID: localnet\nNonce: " + strings.Repeat("0a", 16) +
		"\nIssued At: 2026-01-02T03:04:05.006Z\nExpiration Time: 2026-01-02T03:09:05.006Z"
}

// notObjects are bodies that no operation accepts.
var notObjects = []string{`nope`, `[]`, `null`, `"x"`, `{`, `{} {}`, `{"content":1,"publicKey":1,"label":1,"query":1,"maxReads":"1","maxWrites":"1"}`}

// page is an origin that may call the core API.
const page = "https://app.example"

// answersToRequests: answers that depend on the request alone.
func answersToRequests(t *testing.T, every func(func(contracttest.API, contracttest.Operation))) {
	s := stacktest.Start(t, stacktest.Options{Configure: func(c *config.Config) { c.CoreAllowedOrigins = []string{page} }})
	wallet := stacktest.NewWallet()
	clients := map[contracttest.API]*stacktest.Client{contracttest.Core: s.Core[0], contracttest.Extension: s.Extension[0]}
	sessions := map[contracttest.API]stacktest.Header{}
	for api, c := range clients {
		sessions[api] = c.SignIn(wallet)
	}
	key := stacktest.Bearer(s.Core[0].Expect(201, "POST", "/keys", map[string]any{"label": "x"}, sessions[contracttest.Core]).Text("key"))
	// scopeless has no scope except the one to retract memories, in one namespace.
	scopeless := stacktest.Bearer(s.Core[0].Expect(201, "POST", "/keys", map[string]any{"label": "x", "scopes": []string{"retract"}, "namespaces": []string{"x"}}, sessions[contracttest.Core]).Text("key"))
	liveDrop := func() string {
		drop := s.Extension[0].Expect(201, "POST", "/memory-drops", nil, sessions[contracttest.Extension])
		return "/memory-drops/" + tokenOf(drop)
	}
	moving := importing(t, s)
	every(func(api contracttest.API, op contracttest.Operation) {
		c, session := clients[api], sessions[api]
		method, path := requestOf(op)
		path += queryOf(op)
		body := goodBody(op, wallet)
		for _, status := range op.Statuses {
			switch {
			case status == 401 && signed(op):
				c.Expect(401, method, path, wallet.Answer(someChallenge(wallet)))
			case status == 401:
				a := c.Expect(401, method, path, body)
				if want := "Bearer"; op.ID != "callAgentTools" && a.Header.Get("WWW-Authenticate") != want {
					t.Errorf("%s: %v", op.ID, a.Header)
				}
			case status == 403 && (op.ID == "readCase" || op.ID == "openCase"):
				c.Expect(403, method, path, body, stacktest.With("Sec-Purpose", "prefetch"))
			case status == 416:
				c.Expect(416, method, path, body, stacktest.With("Range", "bytes=0-"))
			case op.ID == "callAgentTools" && (status == 403 || status == 404):
				answersToAgents(c, session)
			case isOfApps(op) && status != 403: // answersToApps
			case status == 404 && op.ID == "createMemory":
				c.Expect(404, method, path, map[string]any{"content": "x", "source": "s", "supersedes": []string{"x"}}, session)
			case status == 404 && op.ID == "createMemories":
				c.Expect(404, method, path, map[string]any{"memories": []any{map[string]any{"content": "x", "supersedes": []string{"x"}}}}, session)
			case status == 403 && op.ID == "fillDrop":
				drop := c.Expect(201, "POST", "/memory-drops", map[string]any{"namespace": "work"}, session)
				c.Expect(403, method, "/memory-drops/"+tokenOf(drop), map[string]any{"content": "x", "metadata": map[string]any{"namespace": "home"}})
			case status == 403 && op.ID == "retractMemory":
				c.Expect(403, method, path, body, key)
			case status == 403 && op.ID != "createSession": // answersToNewOwners has that one
				c.Expect(403, method, path, body, scopeless)
			case status == 404 && op.ID == "getDashboardFile":
				c.Expect(404, method, "/app/index.html", nil)
			case status == 302:
				c.Expect(200, method, path, nil, stacktest.With("Accept", "text/html")) // follows the redirect
			case status == 404 && op.Method != "*":
				c.Expect(404, method, path, body, session, headersOf(op))
			case status == 409 && op.ID == "forgetMemory":
				other := stacktest.NewWallet()
				signedIn := c.SignIn(other)
				c.Expect(409, method, "/memories/"+withoutOwnKey(t, s, other)+"/forget", nil, signedIn)
			case status == 409 && op.ID == "importLog":
				c.Expect(409, method, path, emptyExport(moving.owner), moving.sessions[api], ndjson)
			case status == 409 && op.ID == "fillDrop":
				c.Expect(409, method, "/memory-drops/"+moving.drop, body)
			case status == 409 && op.ID != "createKey":
				c.Expect(409, method, path, body, moving.sessions[api])
			case status == 415 && op.ID == "importLog":
				c.Expect(415, method, path, body, session, stacktest.With("Content-Encoding", "gzip"))
			case status == 415 && op.ID == "fillDrop":
				c.Expect(415, method, liveDrop(), `{}`, stacktest.With("Content-Type", "text/plain"))
			case status == 415 && !strings.HasSuffix(op.ID, "stake"):
				c.Expect(415, method, path, `{}`, session, stacktest.With("Content-Type", "text/plain"))
			case status == 422:
				if op.ID == "fillDrop" {
					path = liveDrop()
				}
				once := stacktest.With("Idempotency-Key", "once-by-"+string(api))
				c.Expect(201, method, path, body, session, once)
				other := map[string]any{"content": "other", "source": "s"}
				if op.ID == "createMemories" {
					other = map[string]any{"memories": []any{other}}
				}
				c.Expect(422, method, path, other, session, once)
			case status == 409:
				tooManyKeys(t, c)
			case status == 400 && op.ID == "fillDrop":
				drop := liveDrop()
				for _, bad := range notObjects {
					c.Expect(400, method, drop, bad)
				}
				c.Expect(413, method, drop, map[string]any{"content": "x", "metadata": map[string]any{"m": strings.Repeat("x", 65536)}})
			case status == 400 && slices.Contains(op.Statuses, 415) && !strings.HasSuffix(op.ID, "stake"):
				for _, bad := range notObjects {
					c.Expect(400, method, path, bad, session)
				}
			}
		}
	})
	s.Core[0].Expect(200, "DELETE", "/import", nil, moving.sessions[contracttest.Core])
	preflight := stacktest.With("Access-Control-Request-Method", "DELETE")
	s.Core[0].Expect(204, "OPTIONS", "/keys/x", nil, preflight, stacktest.With("Origin", page))
	s.Core[0].Expect(403, "OPTIONS", "/keys/x", nil, preflight, stacktest.With("Origin", page+".example"))
	for _, path := range []string{"/memories?limit=0", "/events?after=x", "/events?limit=0", "/memories?cursor=x", "/log/consistency", "/log/consistency?from=1&to=0", "/log/consistency?from=0&to=99999"} {
		s.Core[0].Expect(400, "GET", path, nil, sessions[contracttest.Core])
	}
	for _, query := range []string{"", "?callback=https%3A%2F%2Fexample.com%2Fcallback.html"} {
		s.Extension[0].Expect(400, "GET", "/connect"+query, nil)
	}
	large := map[string]any{"content": "x", "source": "s", "metadata": map[string]any{"m": strings.Repeat("x", 65536)}}
	for api, c := range clients {
		c.Expect(413, "POST", "/memories", large, sessions[api])
		c.Expect(400, "POST", "/memories", map[string]any{"content": "x", "source": "s"}, sessions[api], stacktest.With("Idempotency-Key", "has space"))
	}
	made := clients[contracttest.Extension].Expect(201, "POST", "/memory-drops", nil, sessions[contracttest.Extension])
	for _, request := range [][2]string{{"GET", "/grants"}, {"DELETE", "/grants/" + made.Text("id")}} {
		s.Core[0].Expect(200, request[0], request[1], nil, sessions[contracttest.Core])
	}
	goodExtension(clients[contracttest.Extension], sessions[contracttest.Extension])
	goodCore(clients[contracttest.Core], sessions[contracttest.Core], wallet)
	answersToApps(s.Core[0], s.Core[0].SignIn(wallet))
	erase(t, s.Core[0], wallet)
	for _, file := range []string{"", "style.css", "app.js"} {
		s.Core[0].Expect(200, "GET", "/app/"+file, nil)
	}
	for _, c := range clients {
		c.Expect(404, "GET", "/nope", nil)
		c.Expect(405, "DELETE", "/health", nil)
	}
}

// answersToAgents gets the answers of the Model Context Protocol's route that depend on
// more than the credential.
func answersToAgents(c *stacktest.Client, session stacktest.Header) {
	accept := stacktest.With("Accept", "application/json, text/event-stream")
	message := func(method string) map[string]any {
		return map[string]any{"jsonrpc": "2.0", "id": 1, "method": method}
	}
	c.Expect(200, "POST", "/mcp", message("tools/list"), session, accept)
	c.Expect(200, "POST", "/mcp", message("tools/list"), session, accept, stacktest.With("Origin", page))
	c.Expect(200, "POST", "/mcp", message("tools/list"), session, accept, stacktest.With("Origin", c.URL))
	c.Expect(403, "POST", "/mcp", message("tools/list"), session, accept, stacktest.With("Origin", "https://evil.example"))
	c.Expect(403, "POST", "/mcp", message("tools/list"), session, accept, stacktest.With("Origin", "null"))
	c.Expect(202, "POST", "/mcp", map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"}, session, accept)
	c.Expect(202, "POST", "/mcp", map[string]any{"jsonrpc": "2.0", "method": "notifications/nothing"}, session, accept)
	c.Expect(200, "POST", "/mcp", message("nothing"), session, accept)
	c.Expect(400, "POST", "/mcp", []any{message("ping"), message("ping")}, session, accept)
	c.Expect(400, "POST", "/mcp", message("tools/list"), session, accept, stacktest.With("MCP-Protocol-Version", "2026-07-28"))
	c.Expect(404, "POST", "/mcp", message("nothing"), session, accept, stacktest.With("MCP-Protocol-Version", "2026-07-28"))
	for _, method := range []string{"GET", "DELETE"} {
		c.Expect(405, method, "/mcp", nil, session, accept)
	}
}

// tooManyKeys makes as many keys as an owner may have, and tries one more. A busy machine
// may answer 503 to some requests; their keys may have been made.
func tooManyKeys(t *testing.T, c *stacktest.Client) {
	t.Helper()
	session := c.SignIn(stacktest.NewWallet())
	const most = 1000
	var (
		group         sync.WaitGroup
		made, unknown atomic.Int64
	)
	for range 8 {
		group.Go(func() {
			for made.Load()+unknown.Load() < 2*most {
				switch a := c.Do("POST", "/keys", map[string]any{"label": "x"}, session); a.Status {
				case http.StatusCreated:
					made.Add(1)
				case http.StatusServiceUnavailable:
					unknown.Add(1)
				case http.StatusConflict:
					return
				default:
					t.Errorf("POST /keys: status %d: %s", a.Status, a.Body)
					return
				}
			}
		})
	}
	group.Wait()
	if n, more := made.Load(), unknown.Load(); n > most || n+more < most {
		t.Errorf("%d keys were made, and perhaps %d more, of %d", n, more, most)
	}
	c.Expect(409, "POST", "/keys", map[string]any{"label": "x"}, session)
	// All keys are listed, in many parts, each once.
	listed := decode[[]struct{ ID string }](t, c.Expect(200, "GET", "/keys", nil, session).Body)
	ids := make([]string, len(listed))
	for i, key := range listed {
		ids[i] = key.ID
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(listed) != most || len(ids) != most {
		t.Errorf("%d keys are listed, %d of them once", len(listed), len(ids))
	}
}

func goodCore(c *stacktest.Client, session stacktest.Header, wallet stacktest.Wallet) {
	for _, path := range []string{"/health", "/livez", "/readyz", "/metrics", "/openapi.json"} {
		c.Expect(200, "GET", path, nil)
	}
	c.Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": wallet.PublicKey})
	id := c.Expect(201, "POST", "/memories", map[string]any{"content": "x"}, session).Text("id")
	for _, path := range []string{
		"/memories", "/memories/" + id, "/memories/" + id + "/proof", "/memories/" + id + "/receipt",
		"/events", "/export", "/log", "/log/consistency?from=0&to=1", "/keys", "/auth/sessions", "/staking/status",
	} {
		c.Expect(200, "GET", path, nil, session)
	}
	c.Expect(200, "POST", "/memories/search", nil, session)
	made := c.Expect(201, "POST", "/keys", map[string]any{"label": "x"}, session)
	c.Expect(200, "DELETE", "/keys/"+made.Text("id"), nil, session)
	taken := c.Expect(201, "POST", "/memories", map[string]any{"content": "x"}, session).Text("id")
	c.Expect(200, "DELETE", "/memories/"+taken, nil, session)
	c.Expect(200, "POST", "/memories/"+taken+"/forget", nil, session)
	c.Expect(200, "DELETE", "/auth/sessions", nil, session)
	mine := decode[[]struct{ ID string }](c.TB(), c.Expect(200, "GET", "/auth/sessions", nil, session).Body)
	c.Expect(200, "DELETE", "/auth/sessions/"+mine[0].ID, nil, session)
}

func goodExtension(c *stacktest.Client, session stacktest.Header) {
	for _, path := range []string{"/health", "/livez", "/readyz", "/metrics", "/openapi.json"} {
		c.Expect(200, "GET", path, nil)
	}
	c.Expect(200, "GET", "/connect"+queryOf(contracttest.Operation{ID: "getConnectPage"}), nil)
	c.Expect(200, "GET", "/auth/me", nil, session)
	c.Expect(200, "GET", "/memories", nil, session)
	c.Expect(201, "POST", "/memories", map[string]any{"content": "x", "source": "s"}, session)
	c.Expect(200, "POST", "/memories/search", nil, session)
	read := c.Expect(201, "POST", "/agent-cases", nil, session)
	drop := c.Expect(201, "POST", "/memory-drops", nil, session)
	c.Expect(200, "GET", "/agent-cases/"+tokenOf(read), nil)
	c.Expect(200, "GET", "/memory-drops/"+tokenOf(drop), nil, navigates)
	c.Expect(405, "GET", "/memory-drops/"+tokenOf(drop), nil)
	c.Expect(201, "POST", "/memory-drops/"+tokenOf(drop), map[string]any{"content": "x"})
	read = c.Expect(201, "POST", "/agent-cases", nil, session)
	c.Expect(200, "POST", "/agent-cases/"+tokenOf(read), nil)
	for _, path := range []string{"/agent-cases/" + read.Text("id"), "/memory-drops/" + drop.Text("id")} {
		c.Expect(200, "GET", path+"/status", nil, session)
		c.Expect(200, "POST", path+"/revoke", nil, session)
	}
	preflight := stacktest.With("Access-Control-Request-Method", "POST")
	c.Expect(204, "OPTIONS", "/memories", nil, preflight, stacktest.With("Origin", "chrome-extension://abcdefghijklmnopabcdefghijklmnop"))
	c.Expect(403, "OPTIONS", "/memories", nil, preflight, stacktest.With("Origin", "https://example.com"))
	c.Expect(200, "POST", "/auth/logout", nil, session)
}

// answersOverQuota: an owner's second request within a minute exceeds the quota.
func answersOverQuota(t *testing.T, every func(func(contracttest.API, contracttest.Operation))) {
	s := stacktest.Start(t, stacktest.Options{Configure: func(c *config.Config) {
		c.QuotaWrites, c.QuotaMints, c.QuotaKeys, c.QuotaSearches, c.QuotaBytesPerDay = 1, 1, 1, 1, 45
	}})
	streams(t, s.Core[0], s.Core[0].SignIn(stacktest.NewWallet()))
	drop := "/memory-drops/" + tokenOf(s.Extension[0].Expect(201, "POST", "/memory-drops", map[string]any{"maxWrites": 2}, s.Extension[0].SignIn(stacktest.NewWallet())))
	for _, status := range []int{201, 429} {
		s.Extension[0].Expect(status, "POST", drop, map[string]any{"content": "x"})
	}
	again := s.Extension[0].Expect(429, "POST", drop, "content=x", navigates, stacktest.With("Content-Type", "application/x-www-form-urlencoded"))
	if isPage(t, again, "Leave a memory"); !strings.Contains(string(again.Body), "more than 45 bytes of memories a day") {
		t.Errorf("the form again: %s", again.Body)
	}
	every(func(api contracttest.API, op contracttest.Operation) {
		if !slices.Contains(op.Statuses, 429) || op.ID == "fillDrop" || op.ID == "listEvents" {
			return
		}
		c, wallet := map[contracttest.API]*stacktest.Client{contracttest.Core: s.Core[0], contracttest.Extension: s.Extension[0]}[api], stacktest.NewWallet()
		if op.ID == "allowApp" {
			op.Path = newApp(c).path()
		}
		if a := c.Do(op.Method, op.Path, goodBody(op, wallet), c.SignIn(wallet), headersOf(op)); a.Status > 201 {
			t.Errorf("%s: %d, %s", op.ID, a.Status, a.Body)
		}
		if op.ID == "importLog" { // it added nothing, so it was not counted
			c.Expect(201, "POST", "/memories", map[string]any{"content": "x"}, c.SignIn(wallet))
		}
		c.Expect(429, op.Method, op.Path, goodBody(op, wallet), c.SignIn(wallet))
	})
}

// streams opens as many event streams as an owner may have, and tries one more.
func streams(t *testing.T, c *stacktest.Client, session stacktest.Header) {
	t.Helper()
	const most = 32
	for range most {
		if _, status := openStream(t, c, "", session); status != 200 {
			t.Errorf("a stream: status %d", status)
		}
	}
	if a := c.Expect(429, "GET", "/events", nil, session, stacktest.With("Accept", "text/event-stream")); a.Header.Get("Retry-After") == "" {
		t.Errorf("no Retry-After: %s", a.Body)
	}
	other, status := openStream(t, c, "", c.SignIn(stacktest.NewWallet()))
	if status != 200 {
		t.Errorf("a stream of another owner: status %d", status)
	}
	_ = other.body.Close()
}

// answersToNewOwners: a service that takes no new owners refuses their sign-in, on both
// APIs, and stores nothing of them. Other owners sign in.
func answersToNewOwners(t *testing.T, _ func(func(contracttest.API, contracttest.Operation))) {
	log, known := natstest.Start(t), stacktest.NewWallet()
	open := stacktest.Start(t, stacktest.Options{NATSURL: log.URL()})
	open.Core[0].SignIn(known)
	s := stacktest.Start(t, stacktest.Options{NATSURL: log.URL(), Configure: func(c *config.Config) {
		c.NewOwners, c.MasterKey, c.JWTSecret = "off", open.Config.MasterKey, open.Config.JWTSecret
	}})
	for _, c := range []*stacktest.Client{s.Core[0], s.Extension[0]} {
		c.SignIn(known)
		wallet := stacktest.NewWallet()
		challenge := c.Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": wallet.PublicKey})
		if a := c.Expect(403, "POST", "/auth/verify", wallet.Answer(challenge.Text("message"))); a.Text("error") != "this service takes no new owners" {
			t.Errorf("refused with %s", a.Body)
		}
	}
}

// answersWithoutLog: 503 when a needed server is down.
func answersWithoutLog(t *testing.T, every func(func(contracttest.API, contracttest.Operation))) {
	log := natstest.StartProcess(t)
	s := stacktest.Start(t, stacktest.Options{NATSURL: log.URL()})
	wallet := stacktest.NewWallet()
	clients := map[contracttest.API]*stacktest.Client{contracttest.Core: s.Core[0], contracttest.Extension: s.Extension[0]}
	sessions, challenges := map[contracttest.API]stacktest.Header{}, map[contracttest.API]string{}
	for api, c := range clients {
		sessions[api] = c.SignIn(wallet)
		challenges[api] = c.Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": wallet.PublicKey}).Text("message")
	}
	toErase := s.Core[0].Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": wallet.PublicKey, "purpose": "erase"}).Text("message")
	log.Kill()
	defer log.Start() // so that the stack can stop in order
	every(func(api contracttest.API, op contracttest.Operation) {
		if !slices.Contains(op.Statuses, 500) || op.ID == "createChallenge" || isOfApps(op) && op.ID != "allowApp" {
			return // it needs no log; only a stopping service refuses it
		}
		method, path := requestOf(op)
		body := goodBody(op, wallet)
		if op.ID == "createSession" {
			body = wallet.Answer(challenges[api])
		}
		if op.ID == "eraseOwner" {
			body = wallet.Answer(toErase)
		}
		clients[api].Expect(503, method, path+queryOf(op), body, sessions[api], headersOf(op))
	})
}

// answersWithoutKey: 410 after the key to an owner's content was destroyed. The second
// replicas never had the key.
func answersWithoutKey(t *testing.T, every func(func(contracttest.API, contracttest.Operation))) {
	s := stacktest.Start(t, stacktest.Options{Core: 2, Extension: 2})
	wallet := stacktest.NewWallet()
	session := s.Core[0].SignIn(wallet)
	written := s.Core[0].Expect(201, "POST", "/memories", map[string]any{"content": "x"}, session)
	forget(t, s, wallet)
	// The owner's grants and sessions ended with the key; the owner may have new ones.
	session = s.Core[0].SignIn(wallet)
	extensionSession := s.Extension[0].SignIn(wallet)
	read := s.Extension[0].Expect(201, "POST", "/agent-cases", nil, extensionSession)
	drop := s.Extension[0].Expect(201, "POST", "/memory-drops", nil, extensionSession)
	paths := strings.NewReplacer("{id}", written.Text("id"), "/agent-cases/{token}", "/agent-cases/"+tokenOf(read), "/memory-drops/{token}", "/memory-drops/"+tokenOf(drop))
	every(func(api contracttest.API, op contracttest.Operation) {
		if !slices.Contains(op.Statuses, 410) {
			return
		}
		c, credential := s.Core[1], session
		if api == contracttest.Extension {
			c, credential = s.Extension[1], extensionSession
		}
		c.Expect(410, op.Method, paths.Replace(op.Path), goodBody(op, wallet), credential)
	})
	// A read that failed was not spent, and neither was a write.
	for path, field := range map[string]string{"/agent-cases/" + read.Text("id"): "remainingReads", "/memory-drops/" + drop.Text("id"): "remainingWrites"} {
		if a := s.Extension[1].Expect(200, "GET", path+"/status", nil, extensionSession); a.Number(field) != 1 {
			t.Errorf("%s: %s", path, a.Body)
		}
	}
}

// answersOfStaking: answers that only live staking can give.
func answersOfStaking(t *testing.T) {
	y := newTreasury(t, solana.TokenProgramID)
	stack := stacktest.Start(t, stacktest.Options{Configure: y.configure})
	s := newStaker(y, stack.Core[0])
	y.Give(solana.MustPublicKeyFromBase58(s.PublicKey), 1000)
	s.move("stake", "500")
	s.core.Expect(200, "POST", "/staking/unstake", map[string]any{"amount": "500"}, s.session)
	for _, path := range []string{"/staking/stake", "/staking/unstake"} {
		s.core.Expect(400, "POST", path, map[string]any{"amount": "0"}, s.session)
		s.core.Expect(415, "POST", path, `{}`, s.session, stacktest.With("Content-Type", "text/plain"))
	}
}
