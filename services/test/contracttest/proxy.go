package contracttest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"
)

// Proxy returns a handler that passes requests on to the API at target and checks every
// exchange as Transport does. It is for programs with their own HTTP client, such as a
// browser. It runs in front of the API, at the API's public address, and sees preflights
// too.
func Proxy(t testing.TB, api API, target string) http.Handler {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	// With compression on, the transport would request gzip even if the client did not. For
	// the timeout see stacktest.NewClient.
	base := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16, IdleConnTimeout: 10 * time.Second}
	t.Cleanup(base.CloseIdleConnections)
	proxy := &httputil.ReverseProxy{
		Transport: Transport(t, api, base),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
		},
		// No API of ours answers 502: the client sees that the API did not answer.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		r.Body, _ = r.GetBody()
		proxy.ServeHTTP(w, r)
	})
}
