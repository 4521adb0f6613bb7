package extension

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/httpapi"
	"github.com/memory-ledger/ledger/services/httpapi/connect"
)

var must = testkit.Must

const (
	chromeOrigin  = "chrome-extension://mckckkbinjalkaobmgaohdjieigmfink"
	firefoxOrigin = "moz-extension://0a1b2c3d-0a1b-4c3d-8e9f-0a1b2c3d4e5f"
	safariOrigin  = "safari-web-extension://0A1B2C3D-0A1B-4C3D-8E9F-0A1B2C3D4E5F"
	// Ids in forms that Chrome and Firefox do not use, but that browsers based on them
	// might.
	otherChrome  = "chrome-extension://0A1b2c3d-z9"
	otherFirefox = "moz-extension://0a1b2c3d0a1b4c3d8e9f0a1b2c3d4e5f"
	listedOrigin = "https://dashboard.example"
	listedPort   = "http://localhost:5173"
)

// corsApp has the API's routes without a log or a database behind them. That is enough
// for answers that need neither.
func corsApp() *httpapi.App {
	api := &API{
		Access:         access.NewExtension(nil, nil, time.Now),
		AllowedOrigins: []string{listedOrigin, listedPort},
	}
	app := httpapi.New(httpapi.Config{
		Service: "extension", Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		ShowCauses: true, NewID: func() string { return "request" },
	})
	api.Mount(app)
	return app
}

func ask(t *testing.T, method, target, body string, headers ...string) *http.Response {
	t.Helper()
	request := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := corsApp().Test(request)
	must(t, err)
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	return answer
}

// varies reports whether an answer's Vary header names the header.
func varies(answer *http.Response, header string) bool {
	for _, line := range answer.Header.Values("Vary") {
		if slices.Contains(strings.Split(strings.ReplaceAll(line, " ", ""), ","), header) {
			return true
		}
	}
	return false
}

var allowedOrigins = []string{chromeOrigin, firefoxOrigin, safariOrigin, otherChrome, otherFirefox, listedOrigin, listedPort}

// lookAlikes are origins that a careless comparison would accept.
var lookAlikes = map[string]string{
	"null":                    "null",
	"any":                     "*",
	"web page":                "https://example.com",
	"listed, other scheme":    "http://dashboard.example",
	"listed, with port":       "https://dashboard.example:8443",
	"listed, as a prefix":     "https://dashboard.example.attacker.example",
	"listed, as a suffix":     "https://attacker-dashboard.example",
	"listed, subdomain":       "https://evil.dashboard.example",
	"listed, upper case":      "HTTPS://DASHBOARD.EXAMPLE",
	"two origins":             chromeOrigin + " " + listedOrigin,
	"extension, path":         chromeOrigin + "/callback.html",
	"extension, domain":       chromeOrigin + ".attacker.example",
	"extension, upper id":     strings.ToUpper(chromeOrigin),
	"extension, no id":        "chrome-extension://",
	"extension, user info":    chromeOrigin + "@attacker.example",
	"extension, other scheme": "x" + chromeOrigin,
}

// questions are requests from another origin, with the status that every origin gets.
var questions = []struct {
	method, path, body string
	headers            []string
	status             int
}{
	{"GET", "/health", "", nil, 200},
	{"GET", "/no-such-route", "", nil, 404},
	{"POST", "/auth/challenge", "{}", []string{"Content-Type", "application/json"}, 400},
	{"GET", "/auth/me", "", nil, 401},
	{"POST", "/memories", "{}", []string{"Content-Type", "application/json"}, 401},
	{"GET", "/connect?callback=https://example.com", "", nil, 400},
}

func TestAnswersAreReadableByAllowedOrigins(t *testing.T) {
	for _, q := range questions {
		for _, origin := range allowedOrigins {
			answer := ask(t, q.method, q.path, q.body, append([]string{"Origin", origin}, q.headers...)...)
			if answer.StatusCode != q.status {
				t.Errorf("%s %s: %d, want %d", q.method, q.path, answer.StatusCode, q.status)
			}
			if got := answer.Header.Values("Access-Control-Allow-Origin"); !slices.Equal(got, []string{origin}) {
				t.Errorf("%s %s from %s: allowed %q", q.method, q.path, origin, got)
			}
			if got := answer.Header.Get("Access-Control-Expose-Headers"); got != "Damaged, Matched, Next-Cursor, Retry-After, WWW-Authenticate, X-Request-Id" {
				t.Errorf("%s %s exposes %q", q.method, q.path, got)
			}
			common(t, q.method+" "+q.path, answer)
		}
	}
}

func TestAnswersAreNotReadableByOthers(t *testing.T) {
	for _, q := range questions {
		for name, origin := range lookAlikes {
			answer := ask(t, q.method, q.path, q.body, append([]string{"Origin", origin}, q.headers...)...)
			if answer.StatusCode != q.status {
				t.Errorf("%s %s: %d, want %d", q.method, q.path, answer.StatusCode, q.status)
			}
			closed(t, q.method+" "+q.path+" from "+name, answer)
		}
	}
}

func TestNoOrigin(t *testing.T) {
	closed(t, "without origin", ask(t, "GET", "/health", ""))
	closed(t, "with an empty origin", ask(t, "GET", "/health", "", "Origin", ""))
}

var preflights = []struct{ path, method, headers string }{
	{"/auth/challenge", "POST", "content-type"},
	{"/auth/logout", "POST", "authorization"},
	{"/memories", "GET", "authorization"},
	{"/memories", "POST", "authorization,content-type,idempotency-key,x-request-id"},
	{"/no-such-route", "GET", "authorization"},
}

func TestPreflightsOfAllowedOrigins(t *testing.T) {
	for _, p := range preflights {
		for _, origin := range allowedOrigins {
			what := "preflight of " + p.method + " " + p.path + " from " + origin
			answer := preflight(t, p.path, p.method, p.headers, origin)
			if answer.StatusCode != http.StatusNoContent || answer.ContentLength > 0 {
				t.Errorf("%s: %d with %d bytes", what, answer.StatusCode, answer.ContentLength)
			}
			if got := answer.Header.Get("Access-Control-Allow-Origin"); got != origin {
				t.Errorf("%s: allowed %q", what, got)
			}
			if got := answer.Header.Get("Access-Control-Allow-Methods"); got != "GET, POST" {
				t.Errorf("%s: methods %q", what, got)
			}
			granted := strings.Split(strings.ToLower(answer.Header.Get("Access-Control-Allow-Headers")), ", ")
			for _, header := range strings.Split(p.headers, ",") {
				if !slices.Contains(granted, header) {
					t.Errorf("%s: %s is not among %q", what, header, granted)
				}
			}
			if slices.Contains(granted, "*") || answer.Header.Get("Access-Control-Max-Age") != "600" {
				t.Errorf("%s: headers %q for %q seconds", what, granted, answer.Header.Get("Access-Control-Max-Age"))
			}
			common(t, what, answer)
		}
	}
}

func TestPreflightsOfOthers(t *testing.T) {
	for name, origin := range lookAlikes {
		answer := preflight(t, "/memories", "POST", "authorization", origin)
		if answer.StatusCode != http.StatusForbidden || answer.Header.Get("Content-Type") != "application/json" {
			t.Errorf("preflight from %s: %d %s", name, answer.StatusCode, answer.Header.Get("Content-Type"))
		}
		closed(t, "preflight from "+name, answer)
	}
}

func preflight(t *testing.T, path, method, headers, origin string) *http.Response {
	t.Helper()
	return ask(t, http.MethodOptions, path, "", "Origin", origin,
		"Access-Control-Request-Method", method, "Access-Control-Request-Headers", headers)
}

// common checks every answer: caches must keep origins apart, and the answer must never
// allow cookies or other ambient credentials.
func common(t *testing.T, what string, answer *http.Response) {
	t.Helper()
	if !varies(answer, "Origin") {
		t.Errorf("%s: Vary %q lacks Origin", what, answer.Header.Values("Vary"))
	}
	if got := answer.Header.Get("Access-Control-Allow-Credentials"); got != "" {
		t.Errorf("%s: credentials %q", what, got)
	}
}

// closed checks that no page of another origin can read the answer.
func closed(t *testing.T, what string, answer *http.Response) {
	t.Helper()
	common(t, what, answer)
	for name := range answer.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("%s: %s: %s", what, name, answer.Header.Get(name))
		}
	}
}

// TestRefusalsBeforeRouting: an allowed page can also read a refusal that is sent before
// routing, so that it learns the reason.
func TestRefusalsBeforeRouting(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	app := corsApp()
	served := make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() { served <- app.Serve(ctx, listener, time.Second) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	for _, origin := range []string{chromeOrigin, "https://attacker.example"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+listener.Addr().String()+"/memories",
			strings.NewReader(strings.Repeat(" ", httpapi.MaxBody+1)))
		must(t, err)
		request.Header.Set("Origin", origin)
		answer, err := http.DefaultClient.Do(request)
		must(t, err)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusRequestEntityTooLarge || answer.Header.Get("X-Request-Id") == "" {
			t.Errorf("from %s: %d %v", origin, answer.StatusCode, answer.Header)
		}
		if origin != chromeOrigin {
			closed(t, "too large", answer)
			continue
		}
		if got := answer.Header.Get("Access-Control-Allow-Origin"); got != origin {
			t.Errorf("too large: allowed %q", got)
		}
	}
}

// TestRequestsHaveNoDefaults: type generators treat a member with a default as always
// present, and then `POST /agent-cases {}` does not compile.
func TestRequestsHaveNoDefaults(t *testing.T) {
	t.Parallel()
	var document struct {
		Components struct{ Schemas map[string]json.RawMessage }
	}
	if err := json.Unmarshal(OpenAPI, &document); err != nil || len(document.Components.Schemas) == 0 {
		t.Fatal(err)
	}
	for name, schema := range document.Components.Schemas {
		if strings.Contains(string(schema), `"default"`) {
			t.Errorf("%s has a default: say it in the description", name)
		}
	}
}

// TestTheDocumentIsAsStrictAsConnect: the document describes exactly the callbacks that
// the page accepts.
func TestTheDocumentIsAsStrictAsConnect(t *testing.T) {
	t.Parallel()
	var document struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name   string
				Schema struct {
					Pattern   string
					MaxLength int
				}
			}
		}
	}
	must(t, json.Unmarshal(OpenAPI, &document))
	callback := document.Paths["/connect"]["get"].Parameters[0]
	pattern, err := regexp.Compile(callback.Schema.Pattern)
	if err != nil || callback.Name != "callback" {
		t.Fatal(callback, err)
	}
	chrome, uuid := strings.Repeat("a", 32), "0a1b2c3d-0a1b-4c3d-8e9f-0a1b2c3d4e5f"
	accepted := 0
	for _, scheme := range []string{"chrome-extension", "moz-extension", "safari-web-extension", "https", "Moz-extension"} {
		for _, id := range []string{chrome, strings.ToUpper(chrome), chrome[1:], uuid, strings.ToUpper(uuid), uuid[1:], ""} {
			for _, path := range []string{"/callback.html", "/a/b-c", "", "/", "/a//b", "/../a", "/a?b", "/a?b#c", "/a#b", "/a%2e", "/a.", "/.", "/%2e", "/.%2E", "/..", "/...", "/.a", "/..a", "/%2ea", "/a'", "/a b", "/a%2", "?", "?a=%20/?", "?'", "@b", ":1", "/" + strings.Repeat("a", 512)} {
				text := scheme + "://" + id + path
				_, refused := connect.ParseCallback(text)
				documented := pattern.MatchString(text) && len(text) <= callback.Schema.MaxLength
				if documented != (refused == nil) {
					t.Errorf("%s: documented %v, %v", text, documented, refused)
				}
				if documented {
					accepted++
				}
			}
		}
	}
	if accepted != 5*14 { // 14 tails of: a Chrome id, and Firefox's and Safari's in both cases
		t.Errorf("%d are accepted", accepted)
	}
}
