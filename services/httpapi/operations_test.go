package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/services/httpapi"
)

func askReady(t *testing.T, probes ...httpapi.Probe) (status int, checks map[string]string, lines string) {
	t.Helper()
	var logged strings.Builder
	app := httpapi.New(httpapi.Config{
		Service: "test", Log: slog.New(slog.NewTextHandler(&logged, nil)), Registry: prometheus.NewRegistry(),
		NewID: func() string { return "id" }, Probes: probes,
	})
	answer, err := app.Test(httptest.NewRequest(http.MethodGet, "/readyz", nil), -1)
	must(t, err)
	defer answer.Body.Close()
	var body struct{ Checks map[string]string }
	must(t, json.NewDecoder(answer.Body).Decode(&body))
	return answer.StatusCode, body.Checks, logged.String()
}

// TestASilentDependencyIsTheOnlyOneNamed: a dependency that does not answer takes no time
// from the probes after it.
func TestASilentDependencyIsTheOnlyOneNamed(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	status, checks, _ := askReady(t,
		httpapi.Probe{Name: "silent", Check: func(ctx context.Context) error {
			select {
			case <-asked:
				return errors.New("says nothing")
			case <-ctx.Done():
				return ctx.Err()
			}
		}},
		httpapi.Probe{Name: "well", Check: func(ctx context.Context) error {
			close(asked)
			return ctx.Err()
		}})
	if status != http.StatusServiceUnavailable || checks["silent"] != "says nothing" || checks["well"] != "ok" {
		t.Errorf("status %d: %v", status, checks)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	return listener
}

// TestTooLargeIsTold: a client that sends too much gets the 413, not a broken connection,
// however much it sends.
func TestTooLargeIsTold(t *testing.T) {
	addr := httpapi.Serve(t, httpapi.BareApp())
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, size := range []int{1<<20 + 1, 4 << 20, 32 << 20} {
		for range 5 {
			answer, err := client.Post("http://"+addr+"/livez", "application/json", strings.NewReader(strings.Repeat("x", size)))
			if err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("%d bytes: status %d", size, answer.StatusCode)
			}
		}
	}
}
