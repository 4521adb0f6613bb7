package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/httpapi"
)

var must, errorOf = testkit.Must, testkit.ErrorOf

// converse sends the packets unchanged, one at a time, and returns the status codes of
// the answers, until the server ends the connection.
func converse(t *testing.T, addr string, packets ...string) (statuses []int) {
	t.Helper()
	conn := httpapi.Dial(t, addr)
	for i, packet := range packets {
		if i > 0 {
			time.Sleep(20 * time.Millisecond) // so that the server reads it separately
		}
		send(t, conn, packet)
	}
	for answers := bufio.NewReader(conn); ; {
		if _, err := answers.Peek(1); err == io.EOF {
			return statuses
		}
		answer, err := http.ReadResponse(answers, nil)
		must(t, err)
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		must(t, err)
		if answer.StatusCode == http.StatusBadRequest {
			if !strings.HasPrefix(string(body), `{"error":"`) || answer.Header.Get("X-Early") != "yes" || answer.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%q: %v %s", packets, answer.Header, body)
			}
			if answer.Header.Get("X-Request-Id") == "" || !answer.Close {
				t.Errorf("%q: %v, close %v", packets, answer.Header, answer.Close)
			}
		}
		statuses = append(statuses, answer.StatusCode)
	}
}

// TestAmbiguousRequests: ambiguous requests are refused, and no request after them is
// run.
func TestAmbiguousRequests(t *testing.T) {
	t.Parallel()
	app := httpapi.BareApp()
	app.Early = func(c *fiber.Ctx) { c.Set("X-Early", "yes") }
	app.Get("/last", func(c *fiber.Ctx) error { return c.SendStatus(http.StatusNoContent) })
	app.All("/*", func(c *fiber.Ctx) error {
		body, err := httpapi.Body(c)
		if err != nil {
			return err
		}
		return c.SendString(c.Method() + string(body))
	})
	addr := httpapi.Serve(t, app)
	const ok, next = "Host: x\r\n", "GET /next HTTP/1.1\r\nHost: x\r\n\r\n"
	const chunks = "5\r\nabcde\r\n0\r\n\r\n"
	const last = next + "GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" // is answered if the connection is kept
	for name, test := range map[string]struct {
		sent []string
		want string // statuses
	}{
		"plain":                       {[]string{"GET / HTTP/1.1\r\n" + ok + "\r\n" + last}, "[200 200 204]"},
		"bare line ends":              {[]string{"GET / HTTP/1.1\nHost: x\n\n" + last}, "[200 200 204]"},
		"a length":                    {[]string{"POST / HTTP/1.1\r\n" + ok + "Content-Length: 5\r\n\r\nabcde" + last}, "[200 200 204]"},
		"chunks":                      {[]string{"POST / HTTP/1.1\r\n" + ok + "Transfer-Encoding: Chunked\r\n\r\n" + chunks + last}, "[200 200 204]"},
		"host and port":               {[]string{"GET / HTTP/1.1\r\nHost: [::1]:3001\r\n\r\n" + last}, "[200 200 204]"},
		"two lengths":                 {[]string{"POST / HTTP/1.1\r\n" + ok + "Content-Length: 5\r\nContent-Length: 0\r\n\r\n" + next}, "[400]"},
		"one length twice":            {[]string{"POST / HTTP/1.1\r\n" + ok + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nabcde" + next}, "[400]"},
		"two lengths in one":          {[]string{"POST / HTTP/1.1\r\n" + ok + "Content-Length: 5, 5\r\n\r\nabcde" + next}, "[400]"},
		"length and chunks":           {[]string{"POST / HTTP/1.1\r\n" + ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + next}, "[200]"},
		"chunks twice":                {[]string{"POST / HTTP/1.1\r\n" + ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + next}, "[400]"},
		"chunks of something else":    {[]string{"POST / HTTP/1.1\r\n" + ok + "Transfer-Encoding: gzip, chunked\r\n\r\n" + chunks + next}, "[400]"},
		"chunks for an old client":    {[]string{"POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + next}, "[400]"},
		"no host":                     {[]string{"GET / HTTP/1.1\r\n\r\n" + next}, "[400]"},
		"two hosts":                   {[]string{"GET / HTTP/1.1\r\nHost: x\r\nhost: y\r\n\r\n" + next}, "[400]"},
		"user in host":                {[]string{"GET / HTTP/1.1\r\nHost: me@x\r\n\r\n" + next}, "[400]"},
		"old client":                  {[]string{"GET / HTTP/1.0\r\n\r\n"}, "[200]"},
		"HTTP/2.0":                    {[]string{"GET / HTTP/2.0\r\n" + ok + "\r\n" + next}, "[400]"},
		"HTTP/2's own first words":    {[]string{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}, "[400]"},
		"space in the path":           {[]string{"GET /a b HTTP/1.1\r\n" + ok + "\r\n" + next}, "[400]"},
		"folded line":                 {[]string{"GET / HTTP/1.1\r\n" + ok + "A: b\r\n c\r\n\r\n" + last}, "[200 200 204]"},
		"folded into spaces, halting": {[]string{"POST / HTTP/1.1\r\n" + ok + "Content-Length: 5\r\nA: b\r\n \r\n\r\nabcde", last}, "[200 200 204]"},
		"folded length":               {[]string{"POST / HTTP/1.1\r\n" + ok + "Content-Length:\r\n 5\r\n\r\nabcde" + last}, "[200 200 204]"},
		"a length beyond 64 bits":     {[]string{"POST / HTTP/1.1\r\n" + ok + "Content-Length: 18446744073709551621\r\n\r\nabcde" + next}, "[400]"},
		"space before the colon":      {[]string{"POST / HTTP/1.1\r\n" + ok + "Content-Length : 5\r\n\r\nabcde" + next}, "[400]"},
		"control character in a name": {[]string{"POST / HTTP/1.1\r\n" + ok + "Content-Length\x0b: 5\r\n\r\n" + next}, "[400]"},
		"NUL":                         {[]string{"GET / HTTP/1.1\r\n" + ok + "A: b\x00\r\n\r\n" + next}, "[400]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := fmt.Sprint(converse(t, addr, test.sent...)); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// TestContentEncodings: an unsupported encoding is refused wherever it stands.
func TestContentEncodings(t *testing.T) {
	t.Parallel()
	app := httpapi.BareApp()
	app.Post("/", func(c *fiber.Ctx) error { return httpapi.DecodeOptional(c, &struct{}{}) })
	for _, test := range []struct {
		sent []string
		want int
	}{
		{nil, 200}, {[]string{"identity"}, 200}, {[]string{"identity", "identity"}, 200},
		{[]string{"gzip"}, 415}, {[]string{"identity", "gzip"}, 415}, {[]string{"gzip", "identity"}, 415}, {[]string{"", "br"}, 415}, {[]string{"identity, gzip"}, 415},
	} {
		for _, body := range []string{"", "{}"} {
			request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
			request.Header["Content-Type"] = []string{"application/json"}
			request.Header["Content-Encoding"] = test.sent
			if answer, _ := httpapi.AnswerTo(t, app, request); answer.StatusCode != test.want {
				t.Errorf("%q %q: %d", test.sent, body, answer.StatusCode)
			}
		}
	}
}

// TestRefusedBeforeTheBody: a route can refuse a caller while the body is still arriving.
// The rest of the body is not read as a request.
func TestRefusedBeforeTheBody(t *testing.T) {
	t.Parallel()
	app := httpapi.BareApp()
	app.Post("/", func(*fiber.Ctx) error { return httpapi.Refuse(http.StatusUnauthorized, "who are you?") })
	app.Get("/next", func(*fiber.Ctx) error { t.Error("a body was taken for a request"); return nil })
	addr := httpapi.Serve(t, app)
	next := "GET /next HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, sent := range map[string]string{
		"length": fmt.Sprintf("Content-Length: %d\r\n\r\n%s", httpapi.MaxBody, strings.Repeat(next, 400)),
		"chunks": fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s", httpapi.MaxBody, strings.Repeat(next, 400)),
	} {
		conn := httpapi.Dial(t, addr)
		send(t, conn, "POST / HTTP/1.1\r\nHost: x\r\n"+sent)
		answers := bufio.NewReader(conn)
		if status, _ := read(t, answers); status != http.StatusUnauthorized {
			t.Errorf("%s: status %d", name, status)
		}
		if _, err := answers.ReadByte(); err != io.EOF {
			t.Errorf("%s: after the answer: %v", name, err)
		}
	}
}

// TestBodies: bodies that arrive in pieces are read whole, and their connection is kept.
func TestBodies(t *testing.T) {
	t.Parallel()
	app := httpapi.BareApp()
	app.All("/", func(c *fiber.Ctx) error {
		deadline, _ := httpapi.Context(c).Deadline()
		body, err := httpapi.Body(c)
		if err != nil {
			return err
		}
		again, _ := httpapi.Context(c).Deadline()
		arrives := len(body) > 8<<10 || len(c.Request().Header.Peek("Transfer-Encoding")) > 0
		if c.Method() == http.MethodPost && again.After(deadline) != arrives {
			t.Errorf("%d bytes: the work has until %v, before them until %v", len(body), again, deadline)
		}
		return c.SendString(fmt.Sprintf("%d %s", len(body), body[max(0, len(body)-3):]))
	})
	addr := httpapi.Serve(t, app)
	text := func(n int) string { return strings.Repeat("x", n-3) + "end" }
	chunks := func(n, of int) string {
		var b strings.Builder
		for left := text(n); left != ""; left = left[min(of, len(left)):] {
			part := left[:min(of, len(left))]
			fmt.Fprintf(&b, "%x\r\n%s\r\n", len(part), part)
		}
		return b.String() + "0\r\n\r\n"
	}
	conn := httpapi.Dial(t, addr)
	answers := bufio.NewReader(conn)
	for _, n := range []int{3, 8<<10 - 1, 8 << 10, 8<<10 + 1, 16 << 10, 16<<10 + 1, 100_000, httpapi.MaxBody} {
		for _, sent := range []string{
			fmt.Sprintf("Content-Length: %d\r\n\r\n%s", n, text(n)),
			"Transfer-Encoding: chunked\r\n\r\n" + chunks(n, 5000),
		} {
			send(t, conn, "POST / HTTP/1.1\r\nHost: x\r\n"+sent)
			if status, body := read(t, answers); status != http.StatusOK || body != fmt.Sprint(n, " end") {
				t.Fatalf("%d bytes: %d %.100s", n, status, body)
			}
		}
	}
	send(t, conn, "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks(8<<10, 999))
	if status, body := read(t, answers); status != http.StatusOK || body != "8192 end" {
		t.Fatalf("a short body where none is due: %d %.100s", status, body)
	}
	for sent, limit := range map[string]int{
		fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", httpapi.MaxBody+1) + text(8<<10): httpapi.MaxBody, // without the rest
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(httpapi.MaxBody+1, 5000):     httpapi.MaxBody,
		"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(9<<10, 5000):                  8 << 10,
		"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n" + text(9000):                                 8 << 10,
	} {
		conn := httpapi.Dial(t, addr)
		send(t, conn, sent)
		if status, body := read(t, bufio.NewReader(conn)); status != http.StatusRequestEntityTooLarge || !strings.Contains(body, fmt.Sprintf("larger than %d bytes", limit)) {
			t.Errorf("%.60q: status %d, %s", sent, status, body)
		}
	}
	conn = httpapi.Dial(t, addr)
	send(t, conn, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nno length\r\n")
	if status, _ := read(t, bufio.NewReader(conn)); status != http.StatusBadRequest {
		t.Errorf("broken chunks: status %d", status)
	}
}
