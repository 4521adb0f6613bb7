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

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/services/httpapi"
)

// TestPathsAreAsTheyWereSent: a parameter with an escaped slash is empty and names
// nothing. Other escapes are decoded.
func TestPathsAreAsTheyWereSent(t *testing.T) {
	t.Parallel()
	app := httpapi.BareApp()
	app.Get("/things/:id/proof", func(c *fiber.Ctx) error { return c.SendString("proof of " + httpapi.Param(c, "id")) })
	app.Get("/things/:id", func(c *fiber.Ctx) error { return c.SendString("[" + httpapi.Param(c, "id") + "]") })
	for path, want := range map[string]string{
		"/things/a-b":           "[a-b]",
		"/things/a%2Db":         "[a-b]",
		"/things/%61%C3%A9":     "[aé]",
		"/things/a+b":           "[a+b]",
		"/things/a%20b":         "[a b]",
		"/things/a%252Fb":       "[a%2Fb]",
		"/things/a/proof":       "proof of a",
		"/things/%61/proof":     "proof of a",
		"/things/a%2Fproof":     "[]",
		"/things/a%2fproof":     "[]",
		"/things/%2F":           "[]",
		"/things/a%2Fb/proof":   "proof of ",
		"/things%2Fa":           `{"error":"no such route"}`,
		"/things/a%2Fb/c":       `{"error":"no such route"}`,
		"/%74hings/a/more/more": `{"error":"no such route"}`,
	} {
		if _, body := httpapi.AnswerTo(t, app, httptest.NewRequest(http.MethodGet, path, nil)); body != want {
			t.Errorf("%s: %s, want %s", path, body, want)
		}
	}
	for _, broken := range []string{"%", "%2", "%zz", "a%"} {
		request := httptest.NewRequest(http.MethodGet, "/things/x", nil)
		request.RequestURI = "/things/" + broken // no url.URL would hold this path
		if _, body := httpapi.AnswerTo(t, app, request); body != "[]" {
			t.Errorf("%s: %s", broken, body)
		}
	}
	answer, _ := httpapi.AnswerTo(t, app, httptest.NewRequest(http.MethodDelete, "/things/a%2Fb", nil))
	if answer.StatusCode != http.StatusMethodNotAllowed || answer.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("%d, allowed %s", answer.StatusCode, answer.Header.Get("Allow"))
	}
}

func TestTwoCredentialsAreNone(t *testing.T) {
	t.Parallel()
	app := httpapi.BareApp()
	app.Get("/", func(c *fiber.Ctx) error { return c.SendString(httpapi.Authorization(c)) })
	for _, test := range []struct {
		sent []string
		want string
	}{
		{nil, ""}, {[]string{"Bearer a"}, "Bearer a"}, {[]string{"Bearer a", "Bearer b"}, ""}, {[]string{"Bearer a", "Bearer a"}, ""},
	} {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.Header["Authorization"] = test.sent
		if _, body := httpapi.AnswerTo(t, app, request); body != test.want {
			t.Errorf("%q: %q", test.sent, body)
		}
	}
}

// TestDecode: a member must be absent or have its type; null is neither. A member that the
// route does not know is refused, and the answer names the members that there are.
func TestDecode(t *testing.T) {
	app := httpapi.BareApp()
	app.Post("/", func(c *fiber.Ctx) error {
		var body struct {
			Text     string  `json:"text"`
			Optional *string `json:"optional"`
			Number   *int    `json:"number"`
			List     []struct {
				A string `json:"a"`
				B string `json:"b"`
			} `json:"list,omitzero"`
			None struct{}       `json:"none,omitzero"`
			Free jsontext.Value `json:"free,omitzero"`
		}
		if err := httpapi.Decode(c, &body); err != nil {
			return err
		}
		return c.JSON(body)
	})
	for body, want := range map[string]string{
		`{}`:                                     `{"text":"","optional":null,"number":null}`,
		`{"text":"a","optional":"b","number":3}`: `{"text":"a","optional":"b","number":3}`,
		`{"text":"a","more":null}`:               `{"error":"unknown member \"/more\"; the members here are \"text\", \"optional\", \"number\", \"list\", \"none\", \"free\""}`,
		`{"Text":"a"}`:                           `{"error":"unknown member \"/Text\"; the members here are \"text\", \"optional\", \"number\", \"list\", \"none\", \"free\""}`,
		`{"list":[{"a":"x"},{"a":"x","c":1}]}`:   `{"error":"unknown member \"/list/1/c\"; the members here are \"a\", \"b\""}`,
		`{"none":{"\u001b[2J":1}}`:               `{"error":"unknown member \"/none/\\x1b[2J\"; there are none here"}`,
		`{"` + strings.Repeat("n", 300) + `":1}`: `{"error":"unknown member with a long name; the members here are \"text\", \"optional\", \"number\", \"list\", \"none\", \"free\""}`,
		`{"free":{"anything":{"at":["all"]}}}`:   `{"text":"","optional":null,"number":null,"free":{"anything":{"at":["all"]}}}`,
		`{"text":null}`:                          `{"error":"member \"/text\" has the wrong type"}`,
		`{"optional":null}`:                      `{"error":"member \"/optional\" has the wrong type"}`,
		`{"number":null}`:                        `{"error":"member \"/number\" has the wrong type"}`,
		`{"number":"3"}`:                         `{"error":"member \"/number\" has the wrong type"}`,
		`{"number":15.0}`:                        `{"text":"","optional":null,"number":15}`,
		`{"number":1.5e1}`:                       `{"text":"","optional":null,"number":15}`,
		`{"number":15.5}`:                        `{"error":"member \"/number\" has the wrong type"}`,
		`{"number":1e99}`:                        `{"error":"member \"/number\" has the wrong type"}`,
		`{"number":[15]}`:                        `{"error":"member \"/number\" has the wrong type"}`,
		`{"number":true}`:                        `{"error":"member \"/number\" has the wrong type"}`,
		`{"number":NaN}`:                         `{"error":"body is not valid JSON"}`,
		`{"number":015}`:                         `{"error":"body is not valid JSON"}`,
		`{"number":15.}`:                         `{"error":"body is not valid JSON"}`,
		`null`:                                   `{"error":"body must be a JSON object"}`,
	} {
		request := httptest.NewRequest("POST", "/", strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		if _, got := httpapi.AnswerTo(t, app, request); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

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
