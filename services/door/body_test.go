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

// TestContentTypes: whatever is not JSON is refused alike, forms too, and a
// route that takes no body does not look at one.
func TestContentTypes(t *testing.T) {
	t.Parallel()
	app := door.New(door.Config{
		Service: "test", Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		NewID: func() string { return "id" },
	})
	app.Post("/", func(c *fiber.Ctx) error {
		if err := door.Decode(c, &struct{}{}); err != nil {
			return err
		}
		return c.JSON(fiber.Map{})
	})
	app.Post("/unread", func(c *fiber.Ctx) error { return c.JSON(fiber.Map{}) })
	const malformed = "multipart/form-data; boundary=x"
	for _, test := range []struct {
		path, kind string
		status     int
	}{
		{"/", "application/json", 200},
		{"/", "Application/JSON; charset=Utf-8", 200},
		{"/", `application/json; charset="utf-8"`, 200},
		{"/", "application/json; charset=utf-16", 415},
		{"/", "application/jsonx", 415},
		{"/", "application/x-www-form-urlencoded", 415},
		{"/", "multipart/form-data", 415},
		{"/", malformed, 415},
		{"/unread", malformed, 200},
	} {
		request := httptest.NewRequest("POST", test.path, strings.NewReader(`{}`))
		request.Header.Set("Content-Type", test.kind)
		answer, err := app.Test(request)
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != test.status {
			t.Errorf("%s with %s: %d, want %d", test.path, test.kind, answer.StatusCode, test.status)
		}
		_ = answer.Body.Close()
	}
}
