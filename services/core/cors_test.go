package core

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/httpapi"
	"github.com/memory-ledger/ledger/services/signin"
)

const listedOrigin = "https://app.example"

// corsApp returns an app with the API's routes, but without the services behind them.
func corsApp(origins ...string) *httpapi.App {
	tokens := signin.NewSignedTokens([]byte(strings.Repeat("s", 32)), time.Now)
	api := &API{Access: access.NewCore(nil, nil, tokens, time.Now), AllowedOrigins: origins, Now: time.Now}
	app := httpapi.New(httpapi.Config{
		Service: "core", Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), NewID: func() string { return "id" },
	})
	api.Mount(app)
	return app
}

func ask(t *testing.T, app *httpapi.App, method, path string, headers ...string) *http.Response {
	t.Helper()
	request := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := app.Test(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer
}

// TestNoOtherPage: pages of unlisted origins can't read an answer. Without a list, no
// page can.
func TestNoOtherPage(t *testing.T) {
	t.Parallel()
	for name, app := range map[string]*httpapi.App{"no list": corsApp(), "a list": corsApp(listedOrigin)} {
		for _, origin := range []string{
			"", "null", "*", "http://app.example", "https://app.example:8443", "https://app.example/", "https://app.example.attacker.example",
			"https://evil.app.example", "HTTPS://APP.EXAMPLE", "https://app.example,https://attacker.example",
			"chrome-extension://mckckkbinjalkaobmgaohdjieigmfink",
		} {
			for _, headers := range [][]string{{"Origin", origin}, {"Origin", origin, "Access-Control-Request-Method", "GET"}} {
				method, status := "GET", http.StatusUnauthorized
				if len(headers) > 2 {
					method, status = "OPTIONS", http.StatusForbidden
				}
				answer := ask(t, app, method, "/memories", headers...)
				if answer.StatusCode != status || !strings.Contains(answer.Header.Get("Vary"), "Origin") {
					t.Errorf("%s: %s from %q: %d %v", name, method, origin, answer.StatusCode, answer.Header)
				}
				for header := range answer.Header {
					if strings.HasPrefix(header, "Access-Control-") {
						t.Errorf("%s: %s from %q: %s", name, method, origin, header)
					}
				}
			}
		}
	}
}

// TestExtensionsAdd: a browser extension may add memories and read the answers, without a
// list of origins. It may do nothing else, and no other page may do this.
func TestExtensionsAdd(t *testing.T) {
	t.Parallel()
	app, mine := corsApp(), "moz-extension://0a1b2c3d-0a1b-4c3d-8e9f-0a1b2c3d4e5f"
	for _, c := range []struct{ origin, method, path, allowed string }{
		{mine, "POST", "/memories", mine},
		{mine, "POST", "/memories/batch", ""}, {mine, "POST", "/memories/search", ""}, {mine, "POST", "/mcp", ""}, {mine, "DELETE", "/memories", ""},
		{listedOrigin, "POST", "/memories", ""}, {mine + ".attacker.example", "POST", "/memories", ""},
	} {
		preflight := ask(t, app, "OPTIONS", c.path, "Origin", c.origin, "Access-Control-Request-Method", c.method)
		for _, answer := range []*http.Response{preflight, ask(t, app, c.method, c.path, "Origin", c.origin)} {
			if got := answer.Header.Get("Access-Control-Allow-Origin"); got != c.allowed || answer.StatusCode == http.StatusNoContent && c.allowed == "" {
				t.Errorf("%s %s from %s: %d, allowed %q", c.method, c.path, c.origin, answer.StatusCode, got)
			}
		}
	}
}
