package httpapi

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
)

// TestAdapt checks the request that a net/http handler gets and the answer that is made
// of its response.
func TestAdapt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		set     func(*http.Request)
		status  int
		body    string
	}{
		"an answer": {func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusTeapot)
			_, _ = w.Write(body)
		}, nil, http.StatusTeapot, `{"a":1}`},
		"no credential, but the rest": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.Header.Get("Authorization")+r.Host+r.Header.Get("X-Other")+r.URL.RequestURI())
		}, nil, http.StatusOK, "example.comyes/x?y=z"},
		"a refusal in plain text": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "not so", http.StatusConflict)
		}, nil, http.StatusConflict, `{"error":"not so"}`},
		"no body": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
		}, nil, http.StatusAccepted, ""},
		"no answer": {func(http.ResponseWriter, *http.Request) {}, nil, http.StatusInternalServerError, `{"error":"internal error"}`},
		"a fault":   {func(http.ResponseWriter, *http.Request) { panic("x") }, nil, http.StatusInternalServerError, `{"error":"internal error"}`},
		"an encoding": {func(http.ResponseWriter, *http.Request) {
			t.Error("an encoded body was passed on")
		}, func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }, http.StatusUnsupportedMediaType, `{"error":"content encodings are not supported"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := New(Config{Service: "test", Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), NewID: func() string { return "id" }})
			app.Post("/x", func(ctx *fiber.Ctx) error { return Adapt(ctx, c.handler) })
			request := httptest.NewRequest(http.MethodPost, "/x?y=z", strings.NewReader(`{"a":1}`))
			request.Header.Set("Authorization", "Bearer secret")
			request.Header.Set("X-Other", "yes")
			if c.set != nil {
				c.set(request)
			}
			answer, err := app.Test(request)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != c.status || string(body) != c.body || answer.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%d %q %v, %v", answer.StatusCode, body, answer.Header, err)
			}
		})
	}
}
