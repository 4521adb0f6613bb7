package httpapi

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/grant"
	"github.com/memory-ledger/ledger/services/keystore"
)

var must, errorOf = testkit.Must, testkit.ErrorOf

// BareApp has no routes but the common ones.
func BareApp() *App {
	return New(Config{
		Service: "test", Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		NewID: func() string { return "id" },
	})
}

// AnswerTo returns an app's answer to a request, and the answer's body.
func AnswerTo(t *testing.T, app *App, request *http.Request) (answer *http.Response, body string) {
	t.Helper()
	answer, err := app.Test(request, -1) // without a deadline
	must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer, string(text)
}

// TestDatabaseErrors: a database that can't be reached, or whose tables were thrown away,
// gives 503. A wrong query is a bug and gives 500.
func TestDatabaseErrors(t *testing.T) {
	t.Parallel()
	app := BareApp()
	app.Get("/:code", func(c *fiber.Ctx) error {
		return fmt.Errorf("find owner: %w", &pgconn.PgError{Code: c.Params("code")})
	})
	for code, want := range map[string]int{
		"08006": 503, "53300": 503, "57P01": 503, "42P01": 503, "3F000": 503, "XX001": 503, "XX002": 503, "58030": 503,
		"42703": 500, "42601": 500, "57014": 500,
	} {
		answer, _ := AnswerTo(t, app, httptest.NewRequest(http.MethodGet, "/"+code, nil))
		if answer.StatusCode != want || (answer.Header.Get("Retry-After") == "1") != (want == 503) {
			t.Errorf("%s: %d, %v; want %d", code, answer.StatusCode, answer.Header, want)
		}
	}
}

// TestCauses: every refusal of the extension API has a cause outside production, and none
// in production. The cause for an unknown route does not repeat the path.
func TestCauses(t *testing.T) {
	t.Parallel()
	for _, production := range []bool{false, true} {
		app := New(Config{
			Service: "test", Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
			NewID: func() string { return "id" }, ShowCauses: true, HideCauses: production,
		})
		app.Get("/refused", func(*fiber.Ctx) error { return fmt.Errorf("%w: of nobody", grant.ErrNotFound) })
		app.Get("/dead", func(*fiber.Ctx) error { return fmt.Errorf("%w: revoked", grant.ErrDead) })
		for path, want := range map[string]string{
			"/refused":     `{"error":"not found","requestId":"id","cause":"grant not found: of nobody"}`,
			"/tok3n/tok3n": `{"error":"no such route","requestId":"id","cause":"Not Found"}`,
			"/dead":        `{"error":"not found"}`,
		} {
			if production {
				want, _, _ = strings.Cut(want, `,"cause"`)
				want = strings.TrimSuffix(want, "}") + "}"
			}
			if _, body := AnswerTo(t, app, httptest.NewRequest(http.MethodGet, path, nil)); body != want {
				t.Errorf("%s, production %v: %s; want %s", path, production, body, want)
			}
		}
	}
}

// TestUncertainWrites: the answer to a write with an unknown result says so, and says how
// to repeat the write where that is safe. An import that ends because the service stops can be
// sent again, and so can a write whose key another replica has wrapped by a newer master key.
func TestUncertainWrites(t *testing.T) {
	t.Parallel()
	app := BareApp()
	uncertain := func(*fiber.Ctx) error { return fmt.Errorf("append: %w", eventlog.ErrUncertain) }
	app.Post("/memories", uncertain)
	app.Post("/memory-drops/:token", uncertain)
	app.Post("/import", func(*fiber.Ctx) error { return fmt.Errorf("add: %w", context.Canceled) })
	app.Post("/rotated", func(*fiber.Ctx) error { return fmt.Errorf("seal: %w", keystore.ErrMasterKey) })
	for path, want := range map[string]string{
		"/memories":       `{"error":"the write may or may not have been stored; repeat it with the same Idempotency-Key"}`,
		"/memory-drops/x": `{"error":"the write may or may not have been stored"}`,
		"/import":         `{"error":"temporarily unavailable; try again"}`,
		"/rotated":        `{"error":"temporarily unavailable; try again"}`,
	} {
		answer, body := AnswerTo(t, app, httptest.NewRequest(http.MethodPost, path, nil))
		if answer.StatusCode != 503 || answer.Header.Get("Retry-After") != "1" || body != want {
			t.Errorf("%s: %d %s; want %s", path, answer.StatusCode, body, want)
		}
	}
}
