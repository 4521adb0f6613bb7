package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
)

// route carries one node's connections to another, until it is cut.
type route struct {
	net.Listener
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

// newRoute makes a route that has no target yet: new connections wait.
func newRoute(t *testing.T) *route {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	r := &route{Listener: listener}
	t.Cleanup(r.sever)
	return r
}

func (r *route) lead(to string) {
	for {
		from, err := r.Accept()
		if err != nil {
			return
		}
		r.carry(from, to)
	}
}

func (r *route) carry(from net.Conn, to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	other, err := net.Dial("tcp", to)
	if err != nil || r.cut {
		_ = from.Close()
		if err == nil {
			_ = other.Close()
		}
		return
	}
	r.conns = append(r.conns, from, other)
	for _, pair := range [][2]net.Conn{{from, other}, {other, from}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = pair[0].Close()
		}()
	}
}

func (r *route) sever() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = true
	_ = r.Close()
	for _, conn := range r.conns {
		_ = conn.Close()
	}
}

// cluster is three nodes that reach each other by routes that can be cut.
type cluster struct {
	nodes  [3]*server.Server
	conns  [3]*nats.Conn
	routes [3][3]*route
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{}
	for i := range c.nodes {
		opts := &server.Options{ServerName: nodeName(i), Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true}
		// Nothing listens at the advertised address, so nodes reach each other only by
		// these routes.
		opts.Cluster = server.ClusterOpts{Name: "ledger", Host: "127.0.0.1", Port: -1, Advertise: "127.0.0.1:9", PoolSize: -1}
		for j := range c.nodes {
			if j != i {
				c.routes[i][j] = newRoute(t)
				opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats", Host: c.routes[i][j].Addr().String()})
			}
		}
		node, err := server.NewServer(opts)
		must(t, err)
		c.nodes[i] = node
		node.Start()
		t.Cleanup(func() { node.Shutdown(); node.WaitForShutdown() })
	}
	for i, node := range c.nodes {
		if !node.ReadyForConnections(2 * time.Minute) {
			t.Fatal("a node does not start")
		}
		for j := range c.nodes {
			if j != i {
				go c.routes[j][i].lead(node.ClusterAddr().String())
			}
		}
		conn, err := nats.Connect(node.ClientURL(), nats.MaxReconnects(-1), nats.IgnoreDiscoveredServers())
		must(t, err)
		t.Cleanup(conn.Close)
		c.conns[i] = conn
	}
	return c
}

func nodeName(i int) string { return fmt.Sprint("node-", i) }

// log makes the stream, once all three have joined, and returns which node leads it.
// That node also leads the whole cluster. A stream leader that does not lead the cluster
// would soon find that the cluster has no leader, and would stop answering for that
// reason.
func (c *cluster) log(t *testing.T) (log *eventlog.JetStream, leader int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		made, err := eventlog.Create(ctx, c.conns[0], eventlog.Config{Replicas: 3})
		cancel()
		if err == nil {
			log = made
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // the server does not report that a node has joined
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		for i, node := range c.nodes {
			if !node.JetStreamIsLeader() {
				continue
			}
			if node.JetStreamIsStreamLeader("$G", eventlog.StreamName) {
				return log, i
			}
			prefer := fmt.Sprintf(`{"placement":{"preferred":%q}}`, nodeName(i))
			if _, err := c.conns[0].Request("$JS.API.STREAM.LEADER.STEPDOWN."+eventlog.StreamName, []byte(prefer), 2*time.Second); err != nil {
				t.Log(err) // the loop asks again
			}
		}
		time.Sleep(100 * time.Millisecond) // the server does not report a new leader either
	}
	t.Fatal("nobody leads")
	return nil, 0
}

// TestALeaderThatIsCutOffDoesNotAnswer: a leader that is cut off considers itself the
// leader for ten seconds or more. Meanwhile the other nodes have elected a new leader and
// acknowledge messages.
func TestALeaderThatIsCutOffDoesNotAnswer(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	c := newCluster(t)
	log, leader := c.log(t)
	owner := logtest.Owner()
	// One command, sent again until it is accepted. If it was stored and the answer was
	// lost, the log recognizes it by its id.
	write := func(log *eventlog.JetStream, expected uint64) (seq uint64, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		again := command(owner, expected)
		for ctx.Err() == nil {
			if seq, err = log.Append(ctx, again); !errors.Is(err, eventlog.ErrUnavailable) {
				break
			}
		}
		return seq, err
	}
	first, err := write(log, 0)
	must(t, err)
	open := func(i int) *eventlog.JetStream {
		log, err := eventlog.Open(t.Context(), c.conns[i])
		must(t, err)
		return log
	}
	beside, elsewhere := open(leader), open((leader+1)%3)
	// While nothing is written and nothing is cut, the leader answers, even for longer
	// than one lease. On a busy machine some answers may fail.
	quiet, answered := time.Now(), time.Now()
	for ; answered.Sub(quiet) < 7*time.Second; time.Sleep(20 * time.Millisecond) {
		head, err := beside.OwnerHead(t.Context(), events.FamilyLedger, owner)
		switch {
		case err == nil && head == first:
			answered = time.Now()
		case err == nil || !errors.Is(err, eventlog.ErrUnavailable) || time.Since(quiet) > time.Minute:
			t.Fatalf("%d, %v", head, err)
		}
	}
	cut := time.Now()
	for i := range c.nodes {
		if i != leader {
			c.routes[i][leader].sever()
			c.routes[leader][i].sever()
		}
	}
	type answer struct {
		head uint64
		at   time.Time
	}
	var answers []answer
	acknowledged := make(chan answer, 1)
	go func() {
		seq, err := write(elsewhere, first)
		if err != nil {
			t.Errorf("the others did not go on: %v", err)
			close(acknowledged)
			return
		}
		acknowledged <- answer{seq, time.Now()}
	}()
	var second answer
	for second.head == 0 || time.Since(second.at) < 4*time.Second {
		asked := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		head, err := beside.OwnerHead(ctx, events.FamilyLedger, owner)
		cancel()
		if err == nil {
			answers = append(answers, answer{head, asked})
		} else if !errors.Is(err, eventlog.ErrUnavailable) {
			t.Fatal(err)
		}
		select {
		case is, ok := <-acknowledged:
			if second = is; !ok {
				t.FailNow()
			}
		case <-time.After(20 * time.Millisecond):
		}
	}
	for _, a := range answers {
		if a.at.After(second.at) && a.head < second.head {
			t.Fatalf("%s after sequence %d was acknowledged, the owner's newest is said to be %d", a.at.Sub(second.at), second.head, a.head)
		}
	}
	until := cut
	if n := len(answers); n > 0 { // a busy leader may give no answer
		until = answers[n-1].at
	}
	t.Logf("the others acknowledged %s after the cut; the leader answered %d times, until %s after it",
		second.at.Sub(cut), len(answers), until.Sub(cut))
}
