package eventlog

import (
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestReplicasOfACluster: a replica that lacks some messages for a moment is not lost.
func TestReplicasOfACluster(t *testing.T) {
	t.Parallel()
	well := jetstream.PeerInfo{Name: "well", Current: true, Active: time.Second}
	for name, c := range map[string]struct {
		wanted  int
		cluster *jetstream.ClusterInfo
		current int
		away    []string
	}{
		"no cluster":        {1, nil, 1, nil},
		"one in a cluster":  {1, &jetstream.ClusterInfo{Leader: "a"}, 1, nil},
		"well":              {3, &jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{&well, &well}}, 3, nil},
		"behind for now":    {3, &jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{&well, {Name: "b", Active: time.Second, Lag: 500}}}, 3, nil},
		"far behind":        {3, &jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{&well, {Name: "b", Active: time.Second, Lag: 50_000}}}, 2, []string{"b: it is behind"}},
		"far behind, known": {3, &jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{&well, {Name: "b", Active: time.Second, Current: true, Lag: 50_000}}}, 3, nil},
		"silent":            {3, &jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{&well, {Name: "b", Current: true, Active: 6 * time.Second}}}, 2, []string{"b: it is away"}},
		"never heard of":    {3, &jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{&well, {Name: "b"}}}, 2, []string{"b: it is away"}},
		"off":               {3, &jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{&well, {Name: "b", Current: true, Offline: true}}}, 2, []string{"b: it is away"}},
		"taken out":         {3, &jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{&well}}, 2, nil},
	} {
		r := replicationOf("a", c.wanted, c.cluster)
		var away []string
		for _, node := range r.Replicas {
			if node.Lost {
				away = append(away, node.Node+": "+node.Missing)
			}
		}
		if r.Current() != c.current || !slices.Equal(away, c.away) || r.Replicas[0].Node != "a" || (r.Err() != nil) != (c.current < c.wanted) {
			t.Errorf("%s: %+v, %v", name, r, r.Err())
		}
	}
}
