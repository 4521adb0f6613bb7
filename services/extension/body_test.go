package extension

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/services/httpapi"
)

// TestTheCredentialBeforeTheBody: a caller without a credential is refused while the body
// is still arriving, so that no memory is held for the body.
func TestTheCredentialBeforeTheBody(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	app := corsApp()
	served := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { served <- app.Serve(ctx, listener, time.Second) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	for path, want := range map[string]int{"/memories": 401, "/agent-cases": 401, "/memory-drops": 401, "/memory-drops/svc_drop_x": 404} {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, httpapi.MaxBody, strings.Repeat("x", 10<<10)); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if answer.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, answer.StatusCode, want)
		}
		_ = conn.Close()
	}
}
