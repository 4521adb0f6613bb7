package natstest

import (
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Node is a server of a cluster.
type Node struct {
	*server.Server
	t    testing.TB
	opts *server.Options
}

// Cluster runs three servers inside the test program until the test ends, named node-0
// to node-2. Each has its own folder. They elect a leader by themselves; requests sent
// before that get no answer.
func Cluster(t testing.TB) []*Node {
	t.Helper()
	var routes []*url.URL
	var ports []int
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("natstest: %v", err)
		}
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		routes = append(routes, &url.URL{Scheme: "nats", Host: l.Addr().String()})
		_ = l.Close() // otherwise the server would find the port taken
	}
	var nodes []*Node
	for i, port := range ports {
		n := &Node{t: t, opts: &server.Options{
			ServerName: fmt.Sprintf("node-%d", i), Host: "127.0.0.1", Port: server.RANDOM_PORT,
			JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
			Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: port}, Routes: routes,
		}}
		n.start()
		t.Cleanup(n.Stop)
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		n.ready()
	}
	return nodes
}

func (n *Node) start() {
	n.t.Helper()
	var err error
	if n.Server, err = server.NewServer(n.opts); err != nil {
		n.t.Fatalf("natstest: %v", err)
	}
	n.Server.Start()
}

func (n *Node) ready() {
	n.t.Helper()
	if !n.ReadyForConnections(2 * time.Minute) {
		n.t.Fatal("natstest: a node is not ready")
	}
	n.opts.Port = n.Addr().(*net.TCPAddr).Port // the next start uses the same port
}

// Stop ends the node in good order; it is safe to call twice.
func (n *Node) Stop() {
	n.Shutdown()
	n.WaitForShutdown()
}

// Restart starts the node again, on its folder and port.
func (n *Node) Restart() {
	n.t.Helper()
	n.start()
	n.ready()
}

// Folder is where the node keeps everything.
func (n *Node) Folder() string { return n.opts.StoreDir }
