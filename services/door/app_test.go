package door

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
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
