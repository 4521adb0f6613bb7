package deployed_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/child"
	"github.com/memory-ledger/ledger/services/test/cluster"
	"github.com/memory-ledger/ledger/services/test/contracttest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

const (
	coreHost      = "core.test"
	extensionHost = "extension.test"
	// allowedOrigins of the extension API and its gateway.
	allowedOrigins = "https://app.test,https://other.test:8443"
	// coreOrigins are those of the core API.
	coreOrigins = "https://page.test"
)

// gateway is a running nginx with the configuration of infra/gateway.
type gateway struct {
	addr  string // where it listens for TLS
	probe string
	dir   string // holds its configuration, certificate and pid
	pool  *x509.CertPool
	log   *lines
}

// lines is output that is read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func nginxPath(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	stacktest.Lacking(t, "nginx is missing: make deps installs it")
	return ""
}

// startGateway runs nginx in front of the given addresses until the test ends. more adds
// directives to its configuration.
func startGateway(t *testing.T, core, extension []string, more ...string) *gateway {
	t.Helper()
	path := nginxPath(t)
	dir := t.TempDir()
	g := &gateway{addr: freeAddr(t), probe: freeAddr(t), dir: dir, log: &lines{}}
	g.pool = certificate(t, dir)
	values := map[string]string{
		"GATEWAY_LISTEN": g.addr, "GATEWAY_PROBE": g.probe, "GATEWAY_TMP": dir, "GATEWAY_SPOOL": dir,
		"GATEWAY_CERTIFICATE": filepath.Join(dir, "certificate"), "GATEWAY_KEY": filepath.Join(dir, "key"),
		"GATEWAY_CORE_HOST": coreHost, "GATEWAY_EXTENSION_HOST": extensionHost,
		"GATEWAY_CORE_ALLOWED_ORIGINS":      coreOrigins,
		"GATEWAY_EXTENSION_ALLOWED_ORIGINS": allowedOrigins,
		"GATEWAY_CORE_SERVERS":              servers(core), "GATEWAY_EXTENSION_SERVERS": servers(extension),
	}
	template, err := os.ReadFile("../../../infra/gateway/nginx.conf.template")
	must(t, err)
	filled := regexp.MustCompile(`\$\{(GATEWAY_[A-Z_]+)\}`).ReplaceAllStringFunc(string(template), func(v string) string {
		value, known := values[v[2:len(v)-1]]
		if !known {
			t.Errorf("nobody sets %s", v)
		}
		return value
	})
	filled = strings.Replace(filled, "http {", "http {\n"+strings.Join(more, "\n"), 1)
	conf := filepath.Join(dir, "nginx.conf")
	must(t, os.WriteFile(conf, []byte(filled), 0o600))
	cmd := exec.Command(path, "-c", conf, "-p", dir, "-e", "stderr", "-g", "daemon off;")
	cmd.Stdout, cmd.Stderr = g.log, g.log
	p, err := child.Start(cmd, syscall.SIGTERM)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = p.Stop(ctx, syscall.SIGTERM)
	})
	waitFor(t, "http://"+g.probe+"/livez", p.Done(), g.log)
	return g
}

// servers returns the server lines of an upstream block, in the form of compose.yaml.
func servers(addrs []string) string {
	var b strings.Builder
	for _, a := range addrs {
		fmt.Fprintf(&b, "server %s max_fails=3 fail_timeout=2s; ", a)
	}
	return b.String()
}

// client returns a client that talks TLS to the gateway under a host name.
func (g *gateway) client(t *testing.T, host string) *stacktest.Client {
	c := stacktest.NewClient(t, contracttest.Core, "https://"+host)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: g.pool}, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", g.addr)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	c.HTTP = &http.Client{Transport: transport, Timeout: 30 * time.Second}
	return c
}

// certificate makes a key and a certificate for both hosts in dir.
func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{coreHost, extensionHost},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	for name, block := range map[string]*pem.Block{
		"certificate": {Type: "CERTIFICATE", Bytes: der}, "key": {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
	parsed, err := x509.ParseCertificate(der)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return pool
}

func freeAddr(t *testing.T) string {
	t.Helper()
	addr, err := cluster.FreeAddr()
	must(t, err)
	return addr
}

// waitFor returns when the URL answers 200.
func waitFor(t *testing.T, url string, ended <-chan struct{}, log fmt.Stringer) {
	t.Helper()
	if err := cluster.Await(url, ended); err != nil {
		t.Fatalf("%v:\n%s", err, log)
	}
}
