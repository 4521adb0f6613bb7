package httpapi_test

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/services/httpapi"
)

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
