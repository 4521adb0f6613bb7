package eventlog

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const ()

// Replica is a node that keeps the log.
type Replica struct {
	Node string
	// Missing says why the node can't be read up to the log's end now: it is away or
	// behind. It is empty if the node can be read.
	Missing string
	// Lost: the node is away or far behind; it does not just lack the latest messages.
	Lost bool
}

// Replication says which nodes keep the log, as the stream's leader sees it.
type Replication struct {
	Wanted   int       // how many nodes should keep it
	Replicas []Replica // the leader first
	Bytes    uint64    // size of the log on one node
}

// Current returns how many nodes have all of the log, or nearly all.
func (r Replication) Current() (n int) {
	for _, node := range r.Replicas {
		if !node.Lost {
			n++
		}
	}
	return n
}

// Err returns nil if at least Wanted nodes are current.
func (r Replication) Err() error {
	if r.Current() >= r.Wanted {
		return nil
	}
	var lost []string
	for _, node := range r.Replicas {
		if node.Lost {
			lost = append(lost, node.Node+": "+node.Missing)
		}
	}
	return fmt.Errorf("%d of %d replicas of the log are current: %s", r.Current(), r.Wanted, strings.Join(lost, ", "))
}

// Replication asks which nodes have the log. Every role may ask.
func (l *JetStream) Replication(ctx context.Context) (Replication, error) {
	info, err := l.info(ctx, everySubject)
	if err != nil {
		return Replication{}, fmt.Errorf("look at stream %s: %w", StreamName, err)
	}
	r := replicationOf(l.nc.ConnectedServerName(), info.Config.Replicas, info.Cluster)
	r.Bytes = info.State.Bytes
	return r, nil
}

// replicationOf treats the answering server as the leader if there is no cluster.
func replicationOf(server string, wanted int, cluster *jetstream.ClusterInfo) Replication {
	if cluster == nil || cluster.Leader == "" {
		return Replication{Wanted: wanted, Replicas: []Replica{{Node: server}}}
	}
	r := Replication{Wanted: wanted, Replicas: []Replica{{Node: cluster.Leader}}}
	for _, peer := range cluster.Replicas {
		node := Replica{Node: peer.Name}
		never := peer.Active == 0 && !peer.Current
		switch {
		// A replica answers the leader every second.
		case peer.Offline || never || peer.Active > 5*time.Second:
			node.Missing, node.Lost = "it is away", true
		case !peer.Current:
			// Under load each replica lacks some messages for a moment.
			node.Missing, node.Lost = "it is behind", peer.Lag > 10_000
		}
		r.Replicas = append(r.Replicas, node)
	}
	return r
}
