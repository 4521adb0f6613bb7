package oauth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestPublicAddresses(t *testing.T) {
	for text, want := range map[string]bool{
		"1.1.1.1": true, "2606:4700:4700::1111": true, "::ffff:1.1.1.1": true,
		"127.0.0.1": false, "0.0.0.0": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false,
		"224.0.0.1": false, "255.255.255.255": false, "198.18.0.1": false, "240.0.0.1": false, "::": false, "::1": false, "fe80::1": false, "fe80::1%eth0": false,
		"fc00::1": false, "fd00:ec2::254": false, "ff02::1": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::ffff:169.254.169.254": false,
		"::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "2002:7f00:1::": false, "2001:0:7f00:1::": false, "2001:db8::1": false,
	} {
		if got := public(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is public: %v", text, got)
		}
	}
}

// site serves documents over TLS on this machine. Its documents trust the site, and connect
// to it whatever the name: the guard of addresses is off.
func site(t *testing.T, serve http.HandlerFunc) *documents {
	t.Helper()
	server := httptest.NewTLSServer(serve)
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	d := newDocuments(time.Now)
	transport := d.client.Transport.(*http.Transport)
	transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}
	return d
}

const (
	address = "https://example.com/client.json" // the test server's certificate has this name
	good    = `{"client_id":"` + address + `","client_name":"Good","redirect_uris":["https://example.com/cb"],"grant_types":["authorization_code"]}`
)

// TestDocuments: a document is fetched once, and only a good one is used.
func TestDocuments(t *testing.T) {
	fetched := 0
	d := site(t, func(w http.ResponseWriter, _ *http.Request) {
		fetched++
		_, _ = w.Write([]byte(good))
	})
	for range 2 {
		if m, err := d.get(t.Context(), address); err != nil || m.Name != "Good" || fetched != 1 {
			t.Errorf("%+v, %v, fetched %d times", m, err, fetched)
		}
	}
	// An app with a document needs no registration. Its document's host stands for its name.
	s := &Server{Config{BaseURL: "https://core.example"}, entries{}, d}
	parameters := map[string]string{
		"client_id": address, "redirect_uri": "https://example.com/cb", "response_type": "code", "resource": "https://core.example/mcp/",
		"code_challenge": strings.Repeat("x", 43), "code_challenge_method": "S256",
	}
	asked := func(name string) string { return parameters[name] }
	if q, err := s.Parse(t.Context(), asked); err != nil || q.Name != "Good" || q.Document != "example.com" || q.Host != "example.com" || q.resource != "https://core.example/mcp" {
		t.Errorf("%+v, %v", q, err)
	}
	parameters["redirect_uri"] = "https://example.com/other"
	if q, err := s.Parse(t.Context(), asked); !errors.Is(err, errRedirect) {
		t.Errorf("%+v, %v", q, err)
	}
	for name, serve := range map[string]http.HandlerFunc{
		"of another address": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(strings.Replace(good, "client.json", "other.json", 1)))
		},
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://10.0.0.1/", http.StatusFound)
		},
		"missing": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"huge": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(good + strings.Repeat(" ", maxDocument)))
		},
		"not JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"no address": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"client_id":"` + address + `"}`))
		},
		"bad address": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(strings.Replace(good, "https://example.com/cb", "javascript:alert(1)", 1)))
		},
	} {
		var refusal *Error
		if m, err := site(t, serve).get(t.Context(), address); !errors.As(err, &refusal) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

// TestSlowDocuments: a document that arrives byte by byte is given up.
func TestSlowDocuments(t *testing.T) {
	d := site(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	if d.client.Timeout != 5*time.Second {
		t.Errorf("the timeout is %v", d.client.Timeout)
	}
	d.client.Timeout = 50 * time.Millisecond
	if m, err := d.get(t.Context(), address); err == nil {
		t.Errorf("got %+v", m)
	}
}

// TestDocumentsOfPrivateServers: no connection is made to this machine, whatever name
// leads to it. The check is at the connect, so a name that resolved otherwise before, or
// in IPv6's spelling, gains nothing.
func TestDocumentsOfPrivateServers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_ = conn.Close()
			t.Error("a connection was made")
		}
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "127.1", "2130706433"} {
		if m, err := newDocuments(time.Now).get(t.Context(), "https://"+host+":"+port+"/client.json"); err == nil {
			t.Errorf("%s: got %+v", host, m)
		}
	}
}
