package assembly

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
)

// TestReplicasAreAskedForSeldom: many probes and scrapes send one request. If the log
// does not answer, nothing is known about its replicas.
func TestReplicasAreAskedForSeldom(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		is      eventlog.Replication
		err     error
		missing float64
		shown   bool
	}{
		"one is missing": {is: eventlog.Replication{Wanted: 3, Replicas: []eventlog.Replica{{Node: "a"}, {Node: "b"}, {Node: "c", Missing: "it is away", Lost: true}}}, missing: 1, shown: true},
		"none is":        {is: eventlog.Replication{Wanted: 3, Bytes: 4096, Replicas: []eventlog.Replica{{Node: "a"}, {Node: "b"}, {Node: "c"}}}},
		"no answer":      {err: errors.New("no answer"), missing: math.NaN()},
	} {
		asked := 0
		b := &Base{Registry: prometheus.NewRegistry(), Log: &eventlog.JetStream{}}
		b.registerReplicas()
		b.replicas.ask = func(context.Context) (eventlog.Replication, error) { asked++; return c.is, c.err }
		for range 3 {
			if err := b.replicas.check(t.Context()); err != nil != c.shown {
				t.Errorf("%s: %v", name, err)
			}
			families, err := b.Registry.Gather()
			if err != nil || len(families) != 2 {
				t.Fatal(families, err)
			}
			size, is := families[0].GetMetric()[0].GetGauge().GetValue(), families[1].GetMetric()[0].GetGauge().GetValue()
			if is != c.missing && !(math.IsNaN(is) && math.IsNaN(c.missing)) || size != float64(c.is.Bytes) && !(math.IsNaN(size) && math.IsNaN(c.missing)) {
				t.Errorf("%s: %v are missing, the log has %v bytes", name, is, size)
			}
		}
		if asked != 1 {
			t.Errorf("%s: asked %d times", name, asked)
		}
	}
}

// TestAServiceApproachesTheLeader: a service that starts ends up at the node that leads
// the log, though its addresses name this node last. A standby goes to another node, and
// comes back to work.
func TestAServiceApproachesTheLeader(t *testing.T) {
	t.Parallel()
	nodes := natstest.Cluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	at, err := nats.Connect(nodes[0].ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	js, err := jetstream.New(at, jetstream.WithDefaultTimeout(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	for { // until the nodes have elected a leader
		if _, err = natsconf.Provision(t.Context(), js, 3); err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	// start connects as a service does, with the given node's address last.
	start := func(last string) (node, leader string) {
		var urls []string
		for _, n := range nodes {
			if n.Name() == last {
				urls = append(urls, n.ClientURL())
			} else {
				urls = append([]string{n.ClientURL()}, urls...)
			}
		}
		b := &Base{Logger: slog.New(slog.DiscardHandler)}
		defer b.Close()
		if err := b.openLog(ctx, func(options ...nats.Option) (*nats.Conn, error) {
			return nats.Connect(strings.Join(urls, ","), append(options, nats.DontRandomize())...)
		}); err != nil {
			t.Fatal(err)
		}
		led := func() string {
			is, err := b.Stream.Replication(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return is.Replicas[0].Node
		}
		node, leader = b.NATS.ConnectedServerName(), led()
		b.turn(ctx, false)
		if standby := b.NATS.ConnectedServerName(); standby == leader && leader == led() {
			t.Errorf("the standby stays at %s, which leads", standby)
		}
		b.turn(ctx, true)
		if worker := b.NATS.ConnectedServerName(); worker != leader && leader == led() {
			t.Errorf("the worker is at %s; %s leads", worker, leader)
		}
		return node, leader
	}
	_, leader := start("")
	for {
		node, now := start(leader)
		if node == now {
			return
		}
		if now == leader { // else another node has taken the lead meanwhile
			t.Fatalf("connected to %s; %s leads", node, leader)
		}
		leader = now
	}
}
