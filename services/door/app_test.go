package door

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
)

func TestPanicBecomesAnAnswer(t *testing.T) {
	t.Parallel()
	app := New(Config{
		Service: "test", Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		NewID: func() string { return "id" },
	})
	app.Get("/panic", func(*fiber.Ctx) error { panic("a secret") })
	for range 2 {
		answer, err := app.Test(httptest.NewRequest(http.MethodGet, "/panic", nil))
		if err != nil {
			t.Fatal(err)
		}
		body := make([]byte, 200)
		n, _ := answer.Body.Read(body)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusInternalServerError || string(body[:n]) != `{"error":"internal error"}` {
			t.Errorf("%d %s", answer.StatusCode, body[:n])
		}
	}
}

// broken is a metric that can't be gathered.
type broken struct{}

func (broken) Describe(chan<- *prometheus.Desc) {}

func (broken) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.NewInvalidMetric(prometheus.NewDesc("broken", "Can't be gathered.", nil, nil), errors.New("no"))
}

// TestOneBrokenMetric: the others are served all the same.
func TestOneBrokenMetric(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	registry.MustRegister(broken{})
	app := New(Config{Service: "test", Log: slog.New(slog.DiscardHandler), Registry: registry, NewID: func() string { return "id" }})
	answer, err := app.Test(httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(body), "ledger_http_in_flight") {
		t.Errorf("%d %s, %v", answer.StatusCode, body, err)
	}
}
