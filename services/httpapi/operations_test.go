package httpapi_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/services/httpapi"
)

// TestASilentDependencyIsTheOnlyOneNamed: a dependency that does not answer takes no time
// from the probes after it.
func TestASilentDependencyIsTheOnlyOneNamed(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	app := httpapi.New(httpapi.Config{
		Service: "test", Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), NewID: func() string { return "id" },
		Probes: []httpapi.Probe{
			{Name: "silent", Check: func(ctx context.Context) error {
				select {
				case <-asked:
					return errors.New("says nothing")
				case <-ctx.Done():
					return ctx.Err()
				}
			}},
			{Name: "well", Check: func(ctx context.Context) error {
				close(asked)
				return ctx.Err()
			}},
		},
	})
	answer, body := httpapi.AnswerTo(t, app, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	if answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, `"checks":{"silent":"says nothing","well":"ok"}`) {
		t.Errorf("status %d: %s", answer.StatusCode, body)
	}
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
