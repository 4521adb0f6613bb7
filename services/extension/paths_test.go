package extension

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/grant"
	"github.com/memory-ledger/ledger/services/httpapi"
)

// TestTokensThatAreNone: any text in place of a token gets the same bytes as an unknown
// token. An escaped slash does not lead to another route.
func TestTokensThatAreNone(t *testing.T) {
	t.Parallel()
	app := httpapi.New(httpapi.Config{
		Service: "extension", Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		ShowCauses: true, NewID: func() string { return "request" },
	})
	(&API{Access: access.NewExtension(nil, nil, time.Now), Grants: &grant.Service{}}).Mount(app)
	ask := func(method, path string) string {
		t.Helper()
		request := httptest.NewRequest(method, "/", strings.NewReader(`{"content":"x"}`))
		request.RequestURI = path
		request.Header.Set("Content-Type", "application/json")
		answer, err := app.Test(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		answer.Header.Del("Date")
		dump, err := httputil.DumpResponse(answer, true)
		if err != nil {
			t.Fatal(err)
		}
		return string(dump)
	}
	for _, route := range []struct{ method, path string }{
		{http.MethodGet, "/agent-cases/"}, {http.MethodPost, "/memory-drops/"},
	} {
		want := ask(route.method, route.path+"unknown")
		if !strings.HasPrefix(want, "HTTP/1.1 404 ") || !strings.Contains(want, "not found") {
			t.Fatalf("%s: %s", route.path, want)
		}
		for _, odd := range []string{"x%2Fstatus", "x%2Frevoke", "%2F", "%2f%2f", "%", "%zz", "%00", "%FF", "%E2%82", "unknown%20", "a+b", "%2e%2e"} {
			if got := ask(route.method, route.path+odd); got != want {
				t.Errorf("%s%s: %s, want %s", route.path, odd, got, want)
			}
		}
	}
}
