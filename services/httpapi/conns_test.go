package httpapi_test

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/services/httpapi"
)

// failing is a listener that fails a few times before it accepts.
type failing struct {
	net.Listener
	with []error
}

func (l *failing) Accept() (net.Conn, error) {
	if len(l.with) == 0 {
		return l.Listener.Accept()
	}
	err := l.with[0]
	l.with = l.with[1:]
	return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
}

// ask sends a request, checks that the answer is a success, and returns a reader for the
// connection's further answers.
func ask(t *testing.T, conn net.Conn, path string) *bufio.Reader {
	t.Helper()
	send(t, conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
	answers := bufio.NewReader(conn)
	if status, body := read(t, answers); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	return answers
}

// bounded is an app that allows only the given number of connections.
func bounded(connections int) *httpapi.App {
	return httpapi.New(httpapi.Config{
		Service: "test", Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		NewID: func() string { return "id" }, MaxConnections: connections,
	})
}

// TestIdleConnectionsMakeRoom: the connection that has been idle longest is ended first,
// whether it has had a request or has never sent a byte.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	serve(t, bounded(3), listener)
	silent, second, third := dial(t, listener), dial(t, listener), dial(t, listener)
	ask(t, third, "/livez") // so the others were accepted before it
	ask(t, second, "/livez")
	ask(t, dial(t, listener), "/livez")
	if n, err := silent.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the silent connection got %d bytes, %v", n, err)
	}
	ask(t, second, "/livez")
	ask(t, third, "/livez")

	listener = listen(t)
	serve(t, bounded(1), listener)
	first := dial(t, listener)
	ask(t, first, "/livez")
	ask(t, dial(t, listener), "/livez")
	if n, err := first.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the idle connection got %d bytes, %v", n, err)
	}
}

// waiting serves an app that has room for one connection. It returns a connection with a
// request of the path, whose answer has begun, and one that waits for its place.
func waiting(t *testing.T, app *httpapi.App, path string, begun <-chan struct{}) (busy, waits net.Conn) {
	t.Helper()
	listener := &accepting{Listener: listen(t), accepted: make(chan struct{}, 2)}
	serve(t, app, listener)
	busy = dial(t, listener)
	send(t, busy, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
	<-begun
	waits = dial(t, listener)
	send(t, waits, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
	<-listener.accepted
	<-listener.accepted
	return busy, waits
}

// TestBusyConnectionsMakeRoom: a connection that is being answered is not ended for a
// waiting one. It closes after its answer.
func TestBusyConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	app := bounded(1)
	begun, goOn := make(chan struct{}), make(chan struct{})
	app.Get("/slow", func(c *fiber.Ctx) error {
		close(begun)
		<-goOn
		return c.SendString("slow")
	})
	busy, waits := waiting(t, app, "/slow", begun)
	close(goOn)
	answers := bufio.NewReader(busy)
	if status, body := read(t, answers); status != http.StatusOK || body != "slow" {
		t.Errorf("%d %s", status, body)
	}
	if _, err := answers.ReadByte(); err != io.EOF {
		t.Errorf("after the answer: %v", err)
	}
	_ = busy.Close()
	if status, _ := read(t, bufio.NewReader(waits)); status != http.StatusOK {
		t.Errorf("the one that waited: %d", status)
	}
}

// accepting is a listener that signals each accepted connection.
type accepting struct {
	net.Listener
	accepted chan struct{}
}

func (l *accepting) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.accepted <- struct{}{}
	}
	return conn, err
}
