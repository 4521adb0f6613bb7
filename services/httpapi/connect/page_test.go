package connect_test

import (
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/httpapi"
	"github.com/memory-ledger/ledger/services/httpapi/connect"
)

const (
	id       = "mckckkbinjalkaobmgaohdjieigmfink"
	callback = "chrome-extension://" + id + "/callback.html"
	apiURL   = "https://ledger.example/extension"
)

// get sends a request to an app that has only the page.
func get(t *testing.T, method, target string) (*http.Response, string) {
	t.Helper()
	return ask(t, connect.Config{APIURL: apiURL, SessionTTL: 7 * 24 * time.Hour}, method, target, "")
}

func ask(t *testing.T, cfg connect.Config, method, target, accept string) (*http.Response, string) {
	t.Helper()
	app := httpapi.New(httpapi.Config{
		Service: "extension", Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		ShowCauses: true, NewID: func() string { return "request" },
	})
	app.Get("/connect", connect.Page(cfg))
	app.Get("/authorize", func(c *fiber.Ctx) error {
		return connect.Consent(c, connect.App{APIURL: apiURL, Host: c.Query("host")})
	})
	request := httptest.NewRequest(method, target, nil)
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	answer, err := app.Test(request)
	testkit.Must(t, err)
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	testkit.Must(t, err)
	return answer, string(body)
}

func target(callbacks ...string) string {
	return "/connect?" + url.Values{"callback": callbacks}.Encode()
}

var policyForm = regexp.MustCompile(`^default-src 'none'; script-src 'nonce-([A-Z2-7]{26,})'; style-src 'nonce-([A-Z2-7]{26,})'; ` +
	`connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'$`)

func TestPageHeaders(t *testing.T) {
	seen := make(map[string]bool)
	for range 3 {
		answer, body := get(t, http.MethodGet, target(callback))
		if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Fatalf("%d %s", answer.StatusCode, answer.Header.Get("Content-Type"))
		}
		for name, want := range map[string]string{
			"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "Cross-Origin-Opener-Policy": "same-origin-allow-popups", "Cache-Control": "no-store",
		} {
			if got := answer.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		nonces := policyForm.FindStringSubmatch(answer.Header.Get("Content-Security-Policy"))
		if nonces == nil || nonces[1] != nonces[2] {
			t.Fatalf("policy %q", answer.Header.Get("Content-Security-Policy"))
		}
		if seen[nonces[1]] {
			t.Error("a nonce was used twice")
		}
		seen[nonces[1]] = true
		if n := strings.Count(body, `nonce="`+nonces[1]+`"`); n != 2 {
			t.Errorf("the nonce is on %d elements, want style and script", n)
		}
	}
}

// forbidden matches what a page must not contain if it is self-contained and has no code
// outside its one script.
var forbidden = regexp.MustCompile(`(?i:<(link[^>]+href|img[^>]+src|script[^>]+src|iframe|object|embed|base|form)\b[^>]*|` +
	`\son[a-z]+=|\sstyle="|@import|javascript:)|url\(`)

func TestPageIsSelfContained(t *testing.T) {
	_, body := get(t, http.MethodGet, target(callback))
	for _, found := range forbidden.FindAllString(body, -1) {
		if !strings.HasPrefix(found, `<link rel="icon" href="data:`) {
			t.Errorf("the page has %q", found)
		}
	}
}

func TestPageNamesTheParties(t *testing.T) {
	for kind, cb := range map[string]string{
		"Chrome extension":  callback + "?tab=1&next=/a%20b",
		"Firefox extension": "moz-extension://0a1b2c3d-0a1b-4c3d-8e9f-0a1b2c3d4e5f/callback.html",
		"Safari extension":  "safari-web-extension://0A1B2C3D-0A1B-4C3D-8E9F-0A1B2C3D4E5F/callback.html",
	} {
		_, body := get(t, http.MethodGet, target(cb))
		u, _ := url.Parse(cb)
		for _, want := range []string{
			`data-callback="` + cb + `"`, `data-api="` + apiURL + `"`,
			`<dd id="site">ledger.example</dd>`, `<span class="who">` + kind + `</span> <code id="extension">` + u.Host + `</code></dd>`,
			"For 7 days, the extension can",
			apiURL + "/connect?callback=" + url.QueryEscape(cb),
		} {
			if !strings.Contains(html.UnescapeString(body), want) {
				t.Errorf("%s: the page lacks %s", kind, want)
			}
		}
	}
}

func TestPageRefusesCallbacks(t *testing.T) {
	for name, target := range map[string]string{
		"none":                   "/connect",
		"double encoding":        target(url.QueryEscape(callback)),
		"plus for a space":       target(callback) + "+",
		"encoded fragment":       target(callback + "#x"),
		"two":                    target(callback, "https://example.com/"),
		"two, the bad one first": target("https://example.com/", callback),
		"the same twice":         target(callback, callback),
		"an empty one too":       target(callback) + "&callback",
		"encoded name too":       target(callback) + "&%63allback=https://example.com/",
		"array":                  "/connect?callback[]=" + url.QueryEscape(callback),
		"upper-case name":        "/connect?Callback=" + url.QueryEscape(callback),
		"semicolon":              "/connect?x=1;callback=" + url.QueryEscape(callback),
	} {
		answer, body := get(t, http.MethodGet, target)
		const want = `{"error":"callback must be a page of a browser extension",`
		if answer.StatusCode != http.StatusBadRequest || !strings.HasPrefix(body, want) ||
			answer.Header.Get("Content-Type") != "application/json" || answer.Header.Get("Location") != "" {
			t.Errorf("%s: %d %s", name, answer.StatusCode, body)
		}
	}
}

// TestRefusedInABrowser: a person who follows a wrong link gets a page. The page has no
// script and shows nothing of the request. Every other client gets JSON.
func TestRefusedInABrowser(t *testing.T) {
	const smuggled = "https://example.com/<script>alert(1)</script>"
	for name, c := range map[string]struct {
		accept string
		page   bool
	}{
		"Chromium":         {"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8", true},
		"Firefox, Safari":  {"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true},
		"fetch and curl":   {"*/*", false},
		"nothing":          {"", false},
		"JSON":             {"application/json", false},
		"JSON before HTML": {"text/html;q=0.5,application/json", false},
		"neither":          {"image/png", false},
	} {
		answer, body := ask(t, connect.Config{APIURL: apiURL}, http.MethodGet, target(smuggled), c.accept)
		contentType, policy := "application/json", ""
		if c.page {
			contentType, policy = "text/html; charset=utf-8", "default-src 'none'; style-src 'nonce-"
		}
		h := answer.Header
		if answer.StatusCode != http.StatusBadRequest || h.Get("Content-Type") != contentType || !strings.HasPrefix(h.Get("Content-Security-Policy"), policy) ||
			!strings.Contains(strings.Join(h.Values("Vary"), ","), "Accept") || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", name, answer.StatusCode, h)
		}
		if strings.Contains(body, "<script") || strings.Contains(body, "example.com") || strings.Contains(h.Get("Content-Security-Policy"), "script-src") ||
			c.page != strings.Contains(body, "This sign-in link can't be used") {
			t.Errorf("%s: %s", name, body)
		}
	}
}

// TestPageNamesKnownExtensions: the page names an extension by the operator's list, never
// by anything in the link. If an id is the same in all installations and is not on the
// list, the page says so.
func TestPageNamesKnownExtensions(t *testing.T) {
	const unlisted = "Not on this service's list of extensions"
	const firefox = "0A1B2C3D-0a1b-4c3d-8e9f-0a1b2c3d4e5f"
	names := map[string]string{id: "Notes & <b>More</b>", strings.ToLower(firefox): "Pinned"}
	for name, c := range map[string]struct {
		names     map[string]string
		callback  string
		want, not string
	}{
		"named":           {names, callback, `<span class="who">Notes &amp; &lt;b&gt;More&lt;/b&gt;</span> <span class="kind">Chrome extension</span> <code id="extension">` + id, unlisted},
		"named, Firefox":  {names, "moz-extension://" + firefox + "/x.html", `<span class="who">Pinned</span> <span class="kind">Firefox extension</span>`, unlisted},
		"others named":    {names, "chrome-extension://" + strings.Repeat("a", 32) + "/", unlisted, "Notes"},
		"nobody is named": {nil, callback, `<span class="who">Chrome extension</span>`, unlisted},
		"our own":         {names, "chrome-extension://khdnmbojpknicfadnkbeegfmcpdfaedl/callback.html", `<span class="who">Memory Ledger</span> <span class="kind">Chrome extension</span>`, unlisted},
		"random id":       {names, "moz-extension://0a1b2c3d-0a1b-4c3d-8e9f-0a1b2c3d0000/", `<span class="who">Firefox extension</span>`, unlisted},
	} {
		_, body := ask(t, connect.Config{APIURL: apiURL, Names: c.names}, http.MethodGet, target(c.callback), "")
		if body = strings.ReplaceAll(body, "&#39;", "'"); !strings.Contains(body, c.want) || strings.Contains(body, c.not) {
			t.Errorf("%s: want %s and not %s in %s", name, c.want, c.not, body[strings.Index(body, "<dl"):][:600])
		}
	}
}

// TestConsentSaysWhatIsLocal: an answer that leaves the user's computer is not said to stay
// there, whatever the host's name begins with.
func TestConsentSaysWhatIsLocal(t *testing.T) {
	for host, local := range map[string]bool{
		"127.0.0.1:49152": true, "[::1]:1": true, "[::1]": true, "localhost": true,
		"localhost.evil.example": false, "127.0.0.1.evil.example:443": false, "localhost-app.example": false, "app.example": false, "cursor://localhost": false,
	} {
		_, body := get(t, http.MethodGet, "/authorize?host="+url.QueryEscape(host))
		if !strings.Contains(body, html.EscapeString(host)) || strings.Contains(body, "a program on this computer") != local {
			t.Errorf("%s: %s", host, body[strings.Index(body, "<dl"):][:600])
		}
	}
}
