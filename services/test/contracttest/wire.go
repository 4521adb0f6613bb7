package contracttest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

const wireTimeout = 20 * time.Second

// Wire sends raw bytes whatever the request is: for what no HTTP client would
// send. The request is only told to Transport above it, and ends the
// connection when its context does.
type Wire struct {
	Addr string
	Raw  string
}

// RoundTrip implements http.RoundTripper.
func (w Wire) RoundTrip(request *http.Request) (*http.Response, error) {
	conn, err := net.DialTimeout("tcp", w.Addr, wireTimeout)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(request.Context(), func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(wireTimeout))
	// The answer may come before all is sent, and nothing is read after it.
	go func() { _, _ = fmt.Fprint(conn, w.Raw) }()
	answer, err := http.ReadResponse(bufio.NewReader(conn), request)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return answer, nil
}
