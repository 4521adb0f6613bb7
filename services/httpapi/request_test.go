package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/services/httpapi"
)

func answerTo(t *testing.T, app *httpapi.App, request *http.Request) (status int, body string) {
	t.Helper()
	answer, err := app.Test(request)
	must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer.StatusCode, string(text)
}

// TestPathsAreAsTheyWereSent: a parameter with an escaped slash is empty and names
// nothing. Other escapes are decoded.
func TestPathsAreAsTheyWereSent(t *testing.T) {
	t.Parallel()
	app := newApp()
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
		if _, body := answerTo(t, app, httptest.NewRequest(http.MethodGet, path, nil)); body != want {
			t.Errorf("%s: %s, want %s", path, body, want)
		}
	}
	for _, broken := range []string{"%", "%2", "%zz", "a%"} {
		request := httptest.NewRequest(http.MethodGet, "/things/x", nil)
		request.RequestURI = "/things/" + broken // no url.URL would hold this path
		if _, body := answerTo(t, app, request); body != "[]" {
			t.Errorf("%s: %s", broken, body)
		}
	}
	answer, err := app.Test(httptest.NewRequest(http.MethodDelete, "/things/a%2Fb", nil))
	must(t, err)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusMethodNotAllowed || answer.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("%d, allowed %s", answer.StatusCode, answer.Header.Get("Allow"))
	}
}

func TestTwoCredentialsAreNone(t *testing.T) {
	t.Parallel()
	app := newApp()
	app.Get("/", func(c *fiber.Ctx) error { return c.SendString(httpapi.Authorization(c)) })
	for _, test := range []struct {
		sent []string
		want string
	}{
		{nil, ""}, {[]string{"Bearer a"}, "Bearer a"}, {[]string{"Bearer a", "Bearer b"}, ""}, {[]string{"Bearer a", "Bearer a"}, ""},
	} {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.Header["Authorization"] = test.sent
		if _, body := answerTo(t, app, request); body != test.want {
			t.Errorf("%q: %q", test.sent, body)
		}
	}
}
