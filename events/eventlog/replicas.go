package eventlog

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Replica is a node that keeps the log.
type Replica struct {
	Node string
	// Missing is why it can't be asked now: it is away, or behind. Empty: it can.
	Missing string
}

// pinAttempts is how often a consumer is made to get one on a certain node. The server
// takes any of the stream's nodes each time: of five, one is left out by so many once
// in a million times.
const pinAttempts = 64

// Replicas returns the nodes that keep the log, the leader first.
func (l *JetStream) Replicas(ctx context.Context) ([]Replica, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	stream, err := l.js.Stream(ctx, StreamName)
	if err != nil {
		return nil, fmt.Errorf("replicas of the log: %w: %w", ErrUnavailable, err)
	}
	cluster := stream.CachedInfo().Cluster
	if cluster == nil || cluster.Leader == "" { // a server alone
		return []Replica{{Node: l.nc.ConnectedServerName()}}, nil
	}
	nodes := []Replica{{Node: cluster.Leader}}
	for _, peer := range cluster.Replicas {
		node := Replica{Node: peer.Name}
		switch {
		case peer.Offline:
			node.Missing = "it is away"
		case !peer.Current:
			node.Missing = "it is behind"
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// Replica returns the log as one node keeps it. It reads by a consumer on that node,
// which takes an administrator's rights. A client can't choose the node that answers a
// direct get: nats-server 2.15 takes any, also for a client that is connected to another.
func (l *JetStream) Replica(node string) Bulk { return Bulk{JetStream: l, node: node} }

// Permitted tells whether these credentials may read so.
func (b Bulk) Permitted(ctx context.Context) error {
	consumer, err := b.consumerOn(ctx, b.node, 1)
	if err != nil {
		return err
	}
	b.dropConsumer(ctx, consumer.CachedInfo().Name)
	return nil
}

// consumerOn makes a consumer that reads from a node's replica, or from any.
func (b Bulk) consumerOn(ctx context.Context, node string, from uint64) (jetstream.Consumer, error) {
	for range pinAttempts {
		consumer, err := b.makeConsumer(ctx, from)
		if err != nil || node == "" {
			return consumer, err
		}
		info := consumer.CachedInfo()
		if info.Cluster == nil || info.Cluster.Leader == node {
			return consumer, nil
		}
		b.dropConsumer(ctx, info.Name)
	}
	return nil, fmt.Errorf("%w: no consumer came to be on node %s", ErrUnavailable, node)
}
