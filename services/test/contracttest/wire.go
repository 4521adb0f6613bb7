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

// Wire sends Raw instead of the request, for bytes that no HTTP client would send. The
// request only describes Raw to the Transport above Wire. When the request's context
// ends, the connection closes.
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
	// Send in the background: the answer may arrive before all bytes are sent, and the
	// server reads nothing after its answer.
	go func() { _, _ = fmt.Fprint(conn, w.Raw) }()
	answer, err := http.ReadResponse(bufio.NewReader(conn), request)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return answer, nil
}
