package contracttest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/test/contracttest"
)

// TestProxy: a client behind the proxy gets the API's answer unchanged. If the answer
// differs from the document, the test gets an error.
func TestProxy(t *testing.T) {
	var sent *http.Request
	answer, status := created, 201
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.Clone(r.Context())
		_, _ = io.Copy(io.Discard, r.Body)
		for name, value := range map[string]string{
			"Content-Type": "application/json", "X-Request-Id": "r-1", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
			"Cross-Origin-Opener-Policy": "same-origin-allow-popups", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer api.Close()
	w := &witness{TB: t}
	front := httptest.NewServer(contracttest.Proxy(w, contracttest.Core, api.URL))
	defer front.Close()
	ask := func(path string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), "POST", front.URL+path, strings.NewReader(`{"content":"c"}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Origin", "https://app.example.com")
		got, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		body, err := io.ReadAll(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		return got.StatusCode, string(body)
	}
	if got, body := ask("/memories?x=%20y"); got != 201 || body != created || len(w.complaints) > 0 {
		t.Errorf("status %d, %s, complaints %q", got, body, w.complaints)
	}
	if sent.Host != strings.TrimPrefix(front.URL, "http://") || sent.RequestURI != "/memories?x=%20y" ||
		sent.Header.Get("Origin") != "https://app.example.com" || sent.Header.Get("X-Forwarded-For") != "" {
		t.Errorf("the API was sent %s to %s with %v", sent.RequestURI, sent.Host, sent.Header)
	}
	answer = strings.Replace(created, `"leafIndex":1`, `"leafIndex":"1"`, 1)
	if _, body := ask("/memories"); body != answer || !strings.Contains(strings.Join(w.complaints, ""), "got string, want integer") {
		t.Errorf("%s, complaints %q", body, w.complaints)
	}
	w.complaints = nil
	status, answer = 418, `{"error":"no"}`
	if got, _ := ask("/memories"); got != 418 || !strings.Contains(strings.Join(w.complaints, ""), "status 418 is not documented") {
		t.Errorf("status %d, complaints %q", got, w.complaints)
	}
	w.complaints = nil
	api.Close()
	if got, _ := ask("/memories"); got != http.StatusBadGateway {
		t.Errorf("status %d from an API that is gone", got)
	}
}
