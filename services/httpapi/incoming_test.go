package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/services/httpapi"
)

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
		fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", httpapi.MaxBody+1):           httpapi.MaxBody, // without any of it
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(httpapi.MaxBody+1, 5000): httpapi.MaxBody,
		"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(9<<10, 5000):              8 << 10,
		"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n" + text(9000):                             8 << 10,
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
