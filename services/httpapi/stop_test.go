package httpapi_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/services/httpapi"
)

// TestStopAnswersWhatItHasBegun: begun answers are sent in full. A request that has not
// fully arrived is refused, and later requests are not answered.
func TestStopAnswersWhatItHasBegun(t *testing.T) {
	t.Parallel()
	app := httpapi.BareApp()
	begun, goOn := make(chan struct{}), make(chan struct{})
	long := strings.Repeat("m", 4<<20)
	app.Get("/slow", func(c *fiber.Ctx) error {
		close(begun)
		<-goOn
		return c.SendString(long)
	})
	app.Post("/write", func(*fiber.Ctx) error { t.Error("half a request was carried out"); return nil })
	listener := listen(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- app.Serve(ctx, listener, time.Minute) }()

	addr := listener.Addr().String()
	silent, half, slow := httpapi.Dial(t, addr), httpapi.Dial(t, addr), httpapi.Dial(t, addr)
	send(t, half, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
	answers := bufio.NewReader(half)
	if status, _ := read(t, answers); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	send(t, half, "POST /write HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	if status, _ := read(t, answers); status != http.StatusContinue { // the server has begun to read the request
		t.Fatalf("status %d", status)
	}
	send(t, half, "ab")
	send(t, slow, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\nGET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
	<-begun
	stop()
	if n, err := silent.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a silent connection got %d bytes, %v", n, err)
	}
	if status, body := read(t, answers); status != http.StatusServiceUnavailable || !strings.Contains(body, "stopping") {
		t.Errorf("half a request: %d %s", status, body)
	}
	close(goOn)
	answers = bufio.NewReader(slow)
	if status, body := read(t, answers); status != http.StatusOK || body != long {
		t.Errorf("what was begun: %d, %d bytes", status, len(body))
	}
	if _, err := answers.ReadByte(); err != io.EOF {
		t.Errorf("after the last answer: %v", err)
	}
	for _, conn := range []net.Conn{silent, half, slow} {
		_ = conn.Close()
	}
	must(t, <-ended)
}

// TestAGatewayLosesNoRequest: a service that stops accepts no further connection, so a
// gateway connects to another. But a request may be on its way on a connection that the
// gateway has kept. It is answered, and then the connection closes.
func TestAGatewayLosesNoRequest(t *testing.T) {
	t.Parallel()
	app, listener := httpapi.BareApp(), listen(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- app.Serve(ctx, listener, time.Minute) }()
	kept := httpapi.Dial(t, listener.Addr().String())
	answers := bufio.NewReader(kept)
	ask := func() {
		t.Helper()
		send(t, kept, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
		if status, _ := read(t, answers); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
	}
	ask()
	stop()
	for {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			break
		}
		_ = conn.Close()
	}
	ask()
	if _, err := answers.ReadByte(); err != io.EOF {
		t.Errorf("after the answer: %v", err)
	}
	must(t, <-ended)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	return listener
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	must(t, errorOf(io.WriteString(conn, text)))
}

func read(t *testing.T, answers *bufio.Reader) (status int, body string) {
	t.Helper()
	answer, err := http.ReadResponse(answers, nil)
	must(t, err)
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
	}
	return answer.StatusCode, string(content)
}
