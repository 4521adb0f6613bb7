package deployed_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestGatewayCountsTokens: a credential has one limit, however its header is spelled.
func TestGatewayCountsTokens(t *testing.T) {
	t.Parallel()
	g := startGateway(t, []string{freeAddr(t)}, []string{freeAddr(t)})
	core := g.client(t, coreHost)
	refused := 0
	for i := range 60 {
		scheme := []byte("bearer")
		for bit := range scheme {
			if i>>bit&1 == 1 {
				scheme[bit] -= 'a' - 'A'
			}
		}
		spelled := string(scheme) + strings.Repeat(" ", 1+i%7) + "svc_token"
		if core.Do("POST", "/memories/search", nil, stacktest.With("Authorization", spelled)).Status == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused < 20 {
		t.Errorf("%d of 60 searches with one token were refused", refused)
	}
	if a := core.Do("POST", "/memories/search", nil, stacktest.With("Authorization", "Bearer svc_other")); a.Status != http.StatusServiceUnavailable {
		t.Errorf("another token is counted with it: %d", a.Status)
	}
}

// TestGatewayCountsNetworks: a client with one IPv6 address has 2^64 of them, so each /64
// has one limit.
func TestGatewayCountsNetworks(t *testing.T) {
	t.Parallel()
	g := startGateway(t, []string{freeAddr(t)}, []string{freeAddr(t)},
		"set_real_ip_from 127.0.0.1; real_ip_header X-Test-Address;")
	core := g.client(t, coreHost)
	count := func(address func(i int) string) (refused int) {
		for i := range 40 {
			if core.Do("POST", "/auth/challenge", nil, stacktest.With("X-Test-Address", address(i))).Status == http.StatusTooManyRequests {
				refused++
			}
		}
		return refused
	}
	for name, address := range map[string]func(int) string{
		"one /64":               func(i int) string { return fmt.Sprintf("2001:db8:0:10a::%x:%x", i*i, i) },
		"one /64 without zeros": func(i int) string { return fmt.Sprintf("2001:db8:a:a0a:%x:a:a:1", 0x0a0a+i) },
		"one IPv4 address":      func(int) string { return "192.0.2.10" },
		"the same, in IPv6":     func(int) string { return "::ffff:192.0.2.11" },
	} {
		if refused := count(address); refused < 20 {
			t.Errorf("%s: %d of 40 were refused", name, refused)
		}
	}
	for name, address := range map[string]func(int) string{
		"many /64":            func(i int) string { return fmt.Sprintf("2001:db8:1:%x::1", i) },
		"many IPv4 addresses": func(i int) string { return fmt.Sprintf("198.51.100.%d", i) },
		"the same, in IPv6":   func(i int) string { return fmt.Sprintf("::ffff:203.0.113.%d", i) },
	} {
		if refused := count(address); refused != 0 {
			t.Errorf("%s: %d of 40 were refused", name, refused)
		}
	}
}

// dial makes a TLS connection to the gateway with a host name.
func (g *gateway) dial(t *testing.T, host string) net.Conn {
	t.Helper()
	conn, err := tls.Dial("tcp", g.addr, &tls.Config{RootCAs: g.pool, ServerName: host})
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(2*time.Minute)))
	return conn
}

// TestGatewayMalformed: a request that is too malformed to have a path is refused like
// any other request. Its request line may hold a token that is still valid, so the line
// is not logged.
func TestGatewayMalformed(t *testing.T) {
	t.Parallel()
	g := startGateway(t, []string{freeAddr(t)}, []string{freeAddr(t)})
	plain, err := net.Dial("tcp", g.addr)
	must(t, err)
	defer plain.Close()
	const drop = "/memory-drops/svc_drop_s3cr3ts3cr3ts3cr3ts3cr3ts3cr3ts3cr3t0000000"
	for name, attempt := range map[string]struct {
		conn   net.Conn
		sent   string
		status int
	}{
		"a zero byte":         {g.dial(t, extensionHost), "POST " + drop + "%00 HTTP/1.1\r\nHost: " + extensionHost + "\r\n\r\n", 400},
		"no escape":           {g.dial(t, extensionHost), "POST " + drop + "%zz HTTP/1.1\r\nHost: " + extensionHost + "\r\n\r\n", 400},
		"above the root":      {g.dial(t, extensionHost), "POST /.." + drop + " HTTP/1.1\r\nHost: " + extensionHost + "\r\n\r\n", 400},
		"no host":             {g.dial(t, extensionHost), "POST " + drop + " HTTP/1.1\r\n\r\n", 400},
		"no host, core":       {g.dial(t, coreHost), "POST " + drop + " HTTP/1.1\r\n\r\n", 400},
		"no host, old":        {g.dial(t, coreHost), "GET /metrics HTTP/1.0\r\n\r\n", 400},
		"two hosts":           {g.dial(t, coreHost), "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
		"no version":          {g.dial(t, coreHost), "GET " + drop + " HTTP/x\r\n\r\n", 400},
		"a long line":         {g.dial(t, coreHost), "GET /" + strings.Repeat("x", 40000) + " HTTP/1.1\r\nHost: " + coreHost + "\r\n\r\n", 431},
		"no TLS":              {plain, "GET " + drop + " HTTP/1.1\r\nHost: " + coreHost + "\r\n\r\n", 400},
		"a traced token":      {g.dial(t, extensionHost), "TRACE " + drop + " HTTP/1.1\r\nHost: " + extensionHost + "\r\n\r\n", 400},
		"a later version":     {g.dial(t, extensionHost), "GET " + drop + " HTTP/3.0\r\nHost: " + extensionHost + "\r\n\r\n", 400},
		"compressed chunks":   {g.dial(t, coreHost), "POST /memories HTTP/1.1\r\nHost: " + coreHost + "\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400},
		"a length and chunks": {g.dial(t, coreHost), "POST /memories HTTP/1.1\r\nHost: " + coreHost + "\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
	} {
		// The gateway may close before it has read all of a request that it refuses. Then
		// the write can fail, but the answer is there.
		_, unsent := io.WriteString(attempt.conn, attempt.sent)
		answer, err := http.ReadResponse(bufio.NewReader(attempt.conn), nil)
		if err != nil {
			t.Errorf("%s: %v (sent: %v)", name, err, unsent)
			continue
		}
		body, _ := io.ReadAll(answer.Body)
		if answer.StatusCode != attempt.status || !bytes.HasPrefix(body, []byte(`{"error":`)) || answer.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s %q %.80q", name, answer.Status, answer.Header.Get("Content-Type"), body)
		}
	}
	g.client(t, coreHost).Do("GET", "/health", nil, stacktest.With("X-Request-Id", "last"))
	testkit.Await(t, "the last request is logged", func() bool { return strings.Contains(g.log.String(), `"requestId":"last"`) })
	for line := range strings.Lines(g.log.String()) {
		if strings.Contains(line, "s3cr3t") {
			t.Errorf("a token is logged: %.300s", line)
		}
	}
}

// TestGatewayMemory: one address opens as many connections as it can, and sends almost
// all of a large body on each. The gateway refuses most of the connections, and its
// memory stays small.
func TestGatewayMemory(t *testing.T) {
	t.Parallel()
	g := startGateway(t, []string{freeAddr(t)}, []string{freeAddr(t)})
	before := g.memory(t)
	head := "POST /memories HTTP/1.1\r\nHost: " + coreHost + "\r\nContent-Type: application/json\r\nContent-Length: 1048576\r\n\r\n"
	body := bytes.Repeat([]byte("x"), 1<<20-1)
	var waiting []net.Conn
	for range 250 {
		conn := g.dial(t, coreHost)
		if _, err := conn.Write(append([]byte(head), body...)); err == nil {
			waiting = append(waiting, conn)
		}
	}
	// Connections that are not refused wait ten seconds for their last byte.
	for deadline := time.Now().Add(8 * time.Second); len(waiting) > 64 && time.Now().Before(deadline); {
		waiting = slices.DeleteFunc(waiting, answered)
	}
	if len(waiting) > 64 {
		t.Errorf("%d of 250 connections were not refused", len(waiting))
	}
	if grown := g.memory(t) - before; grown > 48<<20 {
		t.Errorf("the gateway grew by %d MiB", grown>>20)
	}
}

// answered reports whether a connection that was written to has been answered, or ended.
func answered(conn net.Conn) bool {
	_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := conn.Read(make([]byte, 1))
	return !os.IsTimeout(err)
}

// memory returns how many bytes of memory the gateway's processes use.
func (g *gateway) memory(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(g.dir, "nginx.pid"))
	must(t, err)
	pid := strings.TrimSpace(string(text))
	children, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	if err != nil {
		t.Skip("this system does not tell the memory of processes: ", err)
	}
	sum := 0
	for _, p := range append(strings.Fields(string(children)), pid) {
		status, err := os.ReadFile("/proc/" + p + "/status")
		must(t, err)
		kB, err := strconv.Atoi(string(regexp.MustCompile(`VmRSS:\s+(\d+)`).FindSubmatch(status)[1]))
		must(t, err)
		sum += kB << 10
	}
	return sum
}
