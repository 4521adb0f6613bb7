package door_test

import (
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/services/door"
)

// TestDecode: a member is left out or has its type; null is neither.
func TestDecode(t *testing.T) {
	app := door.New(door.Config{
		Service: "test", Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		NewID: func() string { return "id" },
	})
	app.Post("/", func(c *fiber.Ctx) error {
		var body struct {
			Text     string  `json:"text"`
			Optional *string `json:"optional"`
			Number   *int    `json:"number"`
		}
		if err := door.Decode(c, &body); err != nil {
			return err
		}
		return c.JSON(body)
	})
	for body, want := range map[string]string{
		`{}`: `{"text":"","optional":null,"number":null}`,
		`{"text":"a","optional":"b","number":3,"more":null}`: `{"text":"a","optional":"b","number":3}`,
		`{"text":null}`:     `{"error":"member \"/text\" has the wrong type"}`,
		`{"optional":null}`: `{"error":"member \"/optional\" has the wrong type"}`,
		`{"number":null}`:   `{"error":"member \"/number\" has the wrong type"}`,
		`{"number":"3"}`:    `{"error":"member \"/number\" has the wrong type"}`,
		`null`:              `{"error":"body must be a JSON object"}`,
	} {
		request := httptest.NewRequest("POST", "/", strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		answer, err := app.Test(request)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(answer.Body)
		if err != nil || string(got) != want {
			t.Errorf("%s: %s %v, want %s", body, got, err, want)
		}
		_ = answer.Body.Close()
	}
}
