package chain

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/testkit"
)

// silenced is a connection whose bytes are lost on the way once it is silent.
type silenced struct {
	net.Conn
	silent <-chan struct{}
}

func (c silenced) lost() bool {
	select {
	case <-c.silent:
		return true
	default:
		return false
	}
}

func (c silenced) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil && c.lost() {
		return c.Read(p)
	}
	return n, err
}

func (c silenced) Write(p []byte) (int, error) {
	if c.lost() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// TestASilentConnectionIsGivenUp: a load balancer has forgotten an HTTP/2 connection
// without a reset. Calls on it get no answer, and after a while the client makes another
// one.
func TestASilentConnectionIsGivenUp(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("it speaks %s", r.Proto)
		}
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":1}`))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	client, err := New(server.URL)
	testkit.Must(t, err)
	t.Cleanup(client.Close)
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	transport := client.http.Transport.(*http.Transport)
	transport.TLSClientConfig = &tls.Config{RootCAs: trusted}
	silent := make(chan struct{})
	var first sync.Once
	transport.DialContext = func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		first.Do(func() { conn = silenced{conn, silent} })
		return conn, err
	}
	testkit.Must(t, testkit.ErrorOf(client.Rent(t.Context(), 0)))
	close(silent)
	client.timeout = 200 * time.Millisecond
	for begun := time.Now(); ; {
		_, err := client.Rent(t.Context(), 0)
		if err == nil {
			break
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatal(err)
		}
	}
}
