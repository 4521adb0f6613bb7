package eventlog

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// replicaSilence is for how long a replica may not have been heard of, which answers
	// every second, and replicaLag how many messages it may lack: under load each lacks
	// some for a moment.
	replicaSilence = 5 * time.Second
	replicaLag     = 10_000
)

// Replication says which servers keep the log, as the stream's leader sees it.
type Replication struct {
	Wanted  int      // how many should
	Current int      // how many have all of it, or nearly
	Away    []string // the others, with what is known of them
}

// Err is nil where there are as many as should be.
func (r Replication) Err() error {
	if r.Current >= r.Wanted {
		return nil
	}
	return fmt.Errorf("%d of %d replicas of the log are current: %s", r.Current, r.Wanted, strings.Join(r.Away, ", "))
}

// Replication asks how many servers have the log. The question is allowed to every role.
func (l *JetStream) Replication(ctx context.Context) (Replication, error) {
	stream, err := l.js.Stream(ctx, StreamName)
	if err != nil {
		return Replication{}, fmt.Errorf("look at stream %s: %w: %w", StreamName, ErrUnavailable, err)
	}
	info := stream.CachedInfo()
	return replicationOf(info.Config.Replicas, info.Cluster), nil
}

func replicationOf(wanted int, cluster *jetstream.ClusterInfo) Replication {
	r := Replication{Wanted: wanted, Current: 1} // the server that answers has it
	if cluster == nil {
		return r
	}
	for _, peer := range cluster.Replicas {
		never := peer.Active == 0 && !peer.Current
		switch {
		case peer.Offline:
			r.Away = append(r.Away, peer.Name+" is off")
		case never || peer.Active > replicaSilence:
			r.Away = append(r.Away, peer.Name+" says nothing")
		case !peer.Current && peer.Lag > replicaLag:
			r.Away = append(r.Away, fmt.Sprintf("%s lacks %d messages", peer.Name, peer.Lag))
		default:
			r.Current++
		}
	}
	return r
}
