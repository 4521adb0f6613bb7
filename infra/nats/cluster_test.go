package natsconf_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	natsconf "github.com/memory-ledger/ledger/infra/nats"
)

// startCluster runs three nodes of node.conf on free ports.
func startCluster(t *testing.T) []*server.Server {
	t.Helper()
	var routes []*url.URL
	var ports []int
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		routes = append(routes, &url.URL{Scheme: "nats", User: url.UserPassword("cluster", "pc"), Host: l.Addr().String()})
		must(t, l.Close())
	}
	var nodes []*server.Server
	for i, port := range ports {
		opts, err := server.ProcessConfigFile("node.conf")
		must(t, err)
		opts.ServerName = fmt.Sprintf("node-%d", i)
		opts.Host, opts.Port, opts.StoreDir, opts.NoSigs, opts.NoLog = "127.0.0.1", -1, t.TempDir(), true, true
		opts.Cluster.Host, opts.Cluster.Port, opts.Routes = "127.0.0.1", port, routes
		ns, err := server.NewServer(opts)
		must(t, err)
		ns.Start()
		t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
		nodes = append(nodes, ns)
	}
	for _, ns := range nodes {
		if !ns.ReadyForConnections(2 * time.Minute) {
			t.Fatal("node is not ready")
		}
	}
	return nodes
}

// Not parallel: three nodes that elect leaders need the whole machine. The tests of
// services/test/deployed show that every role can do its work on a cluster.
func TestCluster(t *testing.T) {
	slow(t)
	nodes := startCluster(t)
	w := &world{t: t, url: nodes[0].ClientURL(), tls: true}
	provision(t, w)
	refusals(t, nodes[0])
	replicasStay(t, w.as("admin"))
	replicasAreAdded(t, w.as("admin"))
}

// replicasAreAdded: a service that runs meanwhile goes on reading its buckets.
func replicasAreAdded(t *testing.T, admin jetstream.JetStream) {
	t.Helper()
	must(t, admin.DeleteStream(t.Context(), "KV_ledger_keys"))
	keys, err := natsconf.CreateBucket(t.Context(), admin, "ledger_keys", 1)
	must(t, err)
	must(t, errorOf(keys.Create(t.Context(), "owner", []byte("wrapped"))))
	must(t, errorOf(natsconf.Provision(t.Context(), admin, 3)))
	must(t, errorOf(keys.Get(t.Context(), "owner")))
}

// replicasStay: Provision with no number, or with a smaller number, keeps the replicas of
// existing streams. A new stream gets as many replicas as the log has.
func replicasStay(t *testing.T, admin jetstream.JetStream) {
	t.Helper()
	const nonces = "KV_ledger_nonces"
	must(t, admin.DeleteStream(t.Context(), nonces))
	if _, err := natsconf.Provision(t.Context(), admin, 1); !errors.Is(err, natsconf.ErrFewer) || !strings.Contains(err.Error(), "nats stream edit LEDGER --replicas 1") {
		t.Errorf("with fewer: %v", err)
	}
	if _, err := admin.Stream(t.Context(), nonces); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("what is refused makes nothing: %v", err)
	}
	made, err := natsconf.Provision(t.Context(), admin, 0)
	if err != nil || len(made) != 7 || made[3] != (natsconf.Made{What: "stream LEDGER", Now: "3 replicas, 0 messages"}) {
		t.Errorf("made %v, %v", made, err)
	}
	for _, name := range []string{natsconf.Stream, "KV_ledger_keys", "KV_ledger_apps", "ledger_admin", nonces} {
		if s, err := admin.Stream(t.Context(), name); err != nil || s.CachedInfo().Config.Replicas != 3 {
			t.Errorf("%s: %+v, %v", name, s, err)
		} else if window := s.CachedInfo().Config.Duplicates; window != 2*time.Minute {
			t.Errorf("%s: ids are remembered for %s", name, window)
		}
	}
}

// refusals checks that a connection to a node fails in three cases: a client without
// TLS, a client that does not trust the node's certificate authority, and a node
// without a certificate.
func refusals(t *testing.T, node *server.Server) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	plain, err := net.Dial("tcp", node.Addr().String())
	must(t, err)
	defer plain.Close()
	fmt.Fprintf(plain, "CONNECT {\"user\":\"admin\",\"pass\":%q,\"verbose\":true}\r\nPING\r\n", password("admin"))
	_ = plain.SetDeadline(deadline)
	said, err := io.ReadAll(plain) // until the node hangs up
	if err != nil || !bytes.Contains(said, []byte(`"tls_required":true`)) || bytes.Contains(said, []byte("PONG")) || bytes.Contains(said, []byte("+OK")) {
		t.Errorf("without TLS: %q, %v", said, err)
	}
	var unknown x509.UnknownAuthorityError
	if conn, err := nats.Connect(node.ClientURL(), nats.UserInfo("admin", password("admin"))); !errors.As(err, &unknown) {
		t.Errorf("a client that does not know the authority: %v, %v", conn, err)
	}
	route, err := tls.Dial("tcp", node.ClusterAddr().String(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the other end is what is tested
	if err == nil {
		defer route.Close()
		_ = route.SetDeadline(deadline)
		_, err = io.ReadAll(route)
	}
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a route without a certificate: %v", err)
	}
}

// noPeers is the server's error if too few nodes have joined for the replicas.
const noPeers jetstream.ErrorCode = 10005

// provision retries while the nodes still elect their leader or join it. They send no
// signal when they are done. Each attempt waits for the server's answer.
func provision(t *testing.T, w *world) {
	t.Helper()
	conn, _ := w.dial("admin")
	admin, err := jetstream.New(conn, jetstream.WithDefaultTimeout(2*time.Second))
	must(t, err)
	deadline := time.Now().Add(2 * time.Minute)
	for {
		_, err := natsconf.Provision(t.Context(), admin, 0) // 0 means three replicas on a cluster
		var api *jetstream.APIError
		starting := errors.As(err, &api) && (api.Code == 503 || api.ErrorCode == noPeers) || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded)
		switch {
		case err == nil:
			return
		case !starting || time.Now().After(deadline):
			t.Fatal(err)
		}
	}
}
