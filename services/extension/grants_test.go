package extension

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/grant"
	"github.com/memory-ledger/ledger/services/httpapi"
)

// TestIntegersOfGrants: the terms are numbers in any JSON spelling.
func TestIntegersOfGrants(t *testing.T) {
	t.Parallel()
	for _, kind := range []events.GrantKind{events.GrantCase, events.GrantDrop} {
		uses := grant.TermsOf(kind).UsesField
		app := httpapi.New(httpapi.Config{
			Service: "extension", Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
			NewID: func() string { return "request" },
		})
		app.Post("/", func(c *fiber.Ctx) error {
			a, err := askedTerms(c, kind)
			if err != nil {
				return err
			}
			return c.JSON([]*int{a.minutes, a.uses})
		})
		for body, want := range map[string]string{
			`{"expiresInMinutes":15.0,"USES":2e0}`: "[15,2]",
			`{"expiresInMinutes":1.5e1}`:           "[15,null]",
			`{"USES":30e-1}`:                       "[null,3]",
			`{"expiresInMinutes":15.5}`:            `{"error":"member \"/expiresInMinutes\" has the wrong type"}`,
			`{"expiresInMinutes":1e30}`:            `{"error":"member \"/expiresInMinutes\" has the wrong type"}`,
			`{"USES":"2"}`:                         `{"error":"member \"/USES\" has the wrong type"}`,
			`{"USES":null}`:                        `{"error":"member \"/USES\" has the wrong type"}`,
		} {
			request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.ReplaceAll(body, "USES", uses)))
			request.Header.Set("Content-Type", "application/json")
			answer, err := app.Test(request)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if want := strings.ReplaceAll(want, "USES", uses); err != nil || string(got) != want {
				t.Errorf("%s: %s %v, want %s", body, got, err, want)
			}
		}
	}
}
