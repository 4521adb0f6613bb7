package contracttest

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"testing"
)

// Proxy returns a handler that passes requests on to the API at target, as
// they are, and holds every exchange to the API's document as Transport does.
// It is for clients that bring an HTTP client of their own: put before the
// API, under the address that the API calls its own, it sees what a browser
// asks and gets, preflights too.
func Proxy(t testing.TB, api API, target string) http.Handler {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	// A transport that compresses would ask for what the client did not.
	base := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16}
	t.Cleanup(base.CloseIdleConnections)
	return &httputil.ReverseProxy{
		Transport: Transport(t, api, base),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
		},
		// A client that leaves gets no answer, and needs none. An API that
		// can't be reached is for the client to find out, by an answer that no
		// API of ours gives.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
}
