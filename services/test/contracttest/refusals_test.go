package contracttest_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/services/core"
	"github.com/memory-ledger/ledger/services/extension"
	"github.com/memory-ledger/ledger/services/test/contracttest"
)

// serve runs an API with nothing behind it, and returns its address. This is enough for
// requests that the API itself refuses.
func serve(t *testing.T, api contracttest.API) string {
	t.Helper()
	a := app(string(api))
	if api == contracttest.Core {
		(&core.API{}).Mount(a)
	} else {
		(&extension.API{AllowedOrigins: []string{"https://app.example.com"}}).Mount(a)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Serve(ctx, listener, time.Second) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// TestRefusedAtTheDoor: refusals that the server sends before it calls a route have the
// documented form too.
func TestRefusedAtTheDoor(t *testing.T) {
	for _, api := range []contracttest.API{contracttest.Core, contracttest.Extension} {
		addr := serve(t, api)
		for name, c := range map[string]struct {
			method, path, raw string
			status            int
		}{
			"body too large":                {"POST", "/auth/challenge", "Content-Length: 1048577\r\n\r\n" + strings.Repeat("x", 1<<20+1), 413},
			"headers too large":             {"GET", "/health", "X: " + strings.Repeat("x", 20<<10) + "\r\n\r\n", 431},
			"no such method":                {"BREW", "/health", "\r\n", 405},
			"no such method, no such route": {"BREW", "/tea", "\r\n", 404},
			"HEAD":                          {"HEAD", "/health", "\r\n", 200},
			"OPTIONS":                       {"OPTIONS", "/memories", "\r\n", 405},
			"no credential":                 {"GET", "/memories", "\r\n", 401},
			"not HTTP":                      {"GET", "/health", "Content-Length: many\r\n\r\n", 400},
			"two lengths":                   {"POST", "/memories", "Content-Length: 0\r\nContent-Length: 5\r\n\r\nabcde", 400},
			"two hosts":                     {"GET", "/memories", "Host: y\r\n\r\n", 400},
			"folded":                        {"BREW", "/tea", "A: b\r\n c\r\n\r\n", 400},
			"no body":                       {"POST", "/auth/verify", "Content-Length: 0\r\n\r\n", 400},
			"compressed":                    {"POST", "/auth/verify", "Content-Encoding: gzip\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", 415},
			"document":                      {"GET", "/openapi.json", "\r\n", 200},
			"metrics":                       {"GET", "/metrics", "\r\n", 200},
			"ready":                         {"GET", "/readyz", "\r\n", 200},
			"live":                          {"GET", "/livez", "\r\n", 200},
		} {
			t.Run(string(api)+"/"+name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				request, err := http.NewRequestWithContext(ctx, c.method, "http://"+addr+c.path, nil)
				if err != nil {
					t.Fatal(err)
				}
				raw := c.method + " " + c.path + " HTTP/1.1\r\nHost: x\r\n" + c.raw
				answer, err := contracttest.Transport(t, api, contracttest.Wire{Addr: addr, Raw: raw}).RoundTrip(request)
				if err != nil {
					t.Fatal(err)
				}
				_ = answer.Body.Close()
				if answer.StatusCode != c.status {
					t.Errorf("status %d, want %d", answer.StatusCode, c.status)
				}
			})
		}
	}
}

// TestHeadSpendsNoRead: HEAD must change nothing, but a read of a case spends that read.
// So HEAD is refused.
func TestHeadSpendsNoRead(t *testing.T) {
	addr := serve(t, contracttest.Extension)
	client := &http.Client{Transport: contracttest.Transport(t, contracttest.Extension, nil)}
	answer, err := client.Head("http://" + addr + "/agent-cases/svc_case_any")
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusMethodNotAllowed || answer.Header.Get("Allow") != "GET, POST" {
		t.Errorf("status %d, Allow %q", answer.StatusCode, answer.Header.Get("Allow"))
	}
}
