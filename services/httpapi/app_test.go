package httpapi

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/services/grant"
	"github.com/memory-ledger/ledger/services/memory"
)

// TestLinesAndSpansNameTheRequest: every log line about a request names the request and
// its trace. The span also names the request, by its route and never by its path.
func TestLinesAndSpansNameTheRequest(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	spans := tracetest.NewSpanRecorder()
	app := New(Config{
		Service: "test", Registry: prometheus.NewRegistry(), NewID: func() string { return "id-7" },
		Log:    slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Tracer: sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("test"),
	})
	app.Get("/grants/:token", func(*fiber.Ctx) error { panic("") })
	request := httptest.NewRequest(http.MethodGet, "/grants/tok3n?q=qu3ry", nil)
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	request.Header.Set("traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
	answer, err := app.Test(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	written := strings.Split(strings.TrimSpace(lines.String()), "\n")
	if len(written) != 3 { // the panic, the failure, the request
		t.Errorf("%d lines", len(written))
	}
	for _, line := range written {
		if !strings.Contains(line, "requestId=id-7 traceId="+trace) || strings.Contains(line, "tok3n") || strings.Contains(line, "qu3ry") {
			t.Errorf("line: %s", line)
		}
	}
	ended := spans.Ended()
	if len(ended) != 1 {
		t.Fatalf("%d spans", len(ended))
	}
	said := fmt.Sprint(ended[0].Name(), ended[0].Attributes(), ended[0].Status())
	if ended[0].Name() != "GET /grants/:token" || strings.Contains(said, "tok3n") || strings.Contains(said, "qu3ry") ||
		!strings.Contains(said, "id-7") || ended[0].Status().Code != codes.Error {
		t.Errorf("span: %s", said)
	}
}

// TestOutagesHaveFewLines: one cause makes many 503s, and a line for each would add to
// the load. Each 500 is a bug and has its own line.
func TestOutagesHaveFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		app := New(Config{
			Service: "test", Registry: prometheus.NewRegistry(), NewID: func() string { return "id" },
			Log: slog.New(slog.NewTextHandler(&lines, nil)),
		})
		app.Get("/behind", func(*fiber.Ctx) error { return fmt.Errorf("%w: 1", fence.ErrBehind) })
		app.Get("/busy", func(*fiber.Ctx) error { return fmt.Errorf("%w: 2", memory.ErrBusy) })
		app.Get("/bug", func(*fiber.Ctx) error { return errors.New("3") })
		serve := app.Handler()
		ask := func(times int, path string) {
			for range times {
				var c fasthttp.RequestCtx
				c.Request.SetRequestURI(path)
				serve(&c)
			}
		}
		ask(5, "/behind")
		ask(3, "/busy")
		ask(2, "/bug")
		time.Sleep(outageEvery)
		ask(2, "/behind")
		ask(1, "/busy")
		var got []string
		for line := range strings.Lines(lines.String()) {
			_, line, _ = strings.Cut(strings.TrimSpace(line), " ") // the time
			got = append(got, line)
		}
		at := func(level, what, path string, status int, err string, rest string) string {
			return fmt.Sprintf("level=%s msg=%q requestId=id method=GET route=%s status=%d err=%s%s", level, what, path, status, err, rest)
		}
		behind, busy := strconv.Quote(fence.ErrBehind.Error()+": 1"), strconv.Quote(memory.ErrBusy.Error()+": 2")
		want := []string{
			at("ERROR", "request failed", "/behind", 503, behind, " untold=0"),
			at("WARN", "request refused", "/busy", 503, busy, " untold=0"),
			at("ERROR", "request failed", "/bug", 500, "3", ""),
			at("ERROR", "request failed", "/bug", 500, "3", ""),
			at("ERROR", "request failed", "/behind", 503, behind, " untold=4"),
			at("WARN", "request refused", "/busy", 503, busy, " untold=2"),
		}
		if !slices.Equal(got, want) {
			t.Errorf("lines:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestWhatARouteDecidesIsNoFailure: an answer that a route chose to give is not logged as
// a failure, whatever its status.
func TestWhatARouteDecidesIsNoFailure(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	app := New(Config{
		Service: "test", Registry: prometheus.NewRegistry(), NewID: func() string { return "id" },
		Log: slog.New(slog.NewTextHandler(&lines, nil)),
	})
	app.Get("/dormant", func(*fiber.Ctx) error { return Refuse(http.StatusServiceUnavailable, "not live") })
	app.Get("/behind", func(*fiber.Ctx) error { return fence.ErrBehind })
	for _, path := range []string{"/dormant", "/behind"} {
		answer, err := app.Test(httptest.NewRequest(http.MethodGet, path, nil))
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") != "1" {
			t.Errorf("%s: %d, %v", path, answer.StatusCode, answer.Header)
		}
	}
	if said := lines.String(); strings.Contains(said, "dormant") || !strings.Contains(said, "level=ERROR") || !strings.Contains(said, "route=/behind") {
		t.Errorf("lines: %s", said)
	}
}

// TestDatabaseErrors: a database that can't be reached, or whose tables were thrown away,
// gives 503. A wrong query is a bug and gives 500.
func TestDatabaseErrors(t *testing.T) {
	t.Parallel()
	app := New(Config{
		Service: "test", Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		NewID: func() string { return "id" },
	})
	app.Get("/:code", func(c *fiber.Ctx) error {
		return fmt.Errorf("find owner: %w", &pgconn.PgError{Code: c.Params("code")})
	})
	for code, want := range map[string]int{
		"08006": 503, "53300": 503, "57P01": 503, "42P01": 503, "3F000": 503, "XX001": 503, "XX002": 503, "58030": 503,
		"42703": 500, "42601": 500, "57014": 500,
	} {
		answer, err := app.Test(httptest.NewRequest(http.MethodGet, "/"+code, nil))
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want || (answer.Header.Get("Retry-After") == "1") != (want == 503) {
			t.Errorf("%s: %d, %v; want %d", code, answer.StatusCode, answer.Header, want)
		}
	}
}

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
			answer, err := app.Test(httptest.NewRequest(http.MethodGet, path, nil))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if err != nil || string(body) != want {
				t.Errorf("%s, production %v: %s, %v; want %s", path, production, body, err, want)
			}
		}
	}
}

// TestUncertainWrites: the answer to a write with an unknown result says so, and says how
// to repeat the write where that is safe.
func TestUncertainWrites(t *testing.T) {
	t.Parallel()
	app := New(Config{
		Service: "test", Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		NewID: func() string { return "id" },
	})
	uncertain := func(*fiber.Ctx) error { return fmt.Errorf("append: %w", eventlog.ErrUncertain) }
	app.Post("/memories", uncertain)
	app.Post("/memory-drops/:token", uncertain)
	for path, want := range map[string]string{
		"/memories":       `{"error":"the write may or may not have been stored; repeat it with the same Idempotency-Key"}`,
		"/memory-drops/x": `{"error":"the write may or may not have been stored"}`,
	} {
		answer, err := app.Test(httptest.NewRequest(http.MethodPost, path, nil))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != 503 || answer.Header.Get("Retry-After") != "1" || string(body) != want {
			t.Errorf("%s: %d %s, %v; want %s", path, answer.StatusCode, body, err, want)
		}
	}
}

// broken is a metric that can't be gathered.
type broken struct{}

func (broken) Describe(chan<- *prometheus.Desc) {}

func (broken) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.NewInvalidMetric(prometheus.NewDesc("broken", "Can't be gathered.", nil, nil), errors.New("no"))
}

// TestOneBrokenMetric: the other metrics are still served.
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
