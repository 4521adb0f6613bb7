package eventlog

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestContact(t *testing.T) {
	t.Parallel()
	const never = math.MaxInt64
	of := func(leader string, heard ...time.Duration) *jetstream.ClusterInfo {
		c := &jetstream.ClusterInfo{Leader: leader}
		for _, h := range heard {
			c.Replicas = append(c.Replicas, &jetstream.PeerInfo{Active: h})
		}
		return c
	}
	for name, c := range map[string]struct {
		cluster *jetstream.ClusterInfo
		want    contact
		fails   bool
	}{
		"no cluster":              {nil, contact{}, false},
		"one replica":             {of("a"), contact{}, false},
		"three, one is away":      {of("a", 9, 2), contact{2, 9}, false},
		"three, one never came":   {of("a", 0, 2), contact{2, never}, false},
		"three, nobody ever came": {of("a", 0, 0), contact{never, never}, false},
		"three without a leader":  {of("", 1, 2), contact{}, true},
		"five, two are away":      {of("a", 9, 2, 8, 1), contact{2, 9}, false},
		"five, three are away":    {of("a", 9, 7, 8, 1), contact{7, 9}, false},
		"five, one ever came":     {of("a", 0, 0, 0, 1), contact{never, never}, false},
	} {
		if got, err := contactOf(c.cluster); got != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestASilentReplicaPutsReadsInDoubt: contact with a majority is not enough. A leader
// without a majority is refused.
func TestASilentReplicaPutsReadsInDoubt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var heard contact
		asked := 0
		l := &lease{asking: make(chan struct{}, 1), contact: func(context.Context) (contact, error) { asked++; return heard, nil }}
		for _, c := range []struct {
			after   time.Duration
			heard   contact
			current bool
			asks    int
			fails   error
		}{
			{0, contact{0, leaseTime}, false, 1, nil},
			{doubtTime / 2, contact{0, 0}, false, 0, nil}, // not asked again so soon
			{doubtTime, contact{0, leaseTime - 1}, true, 1, nil},
			{leaseTime, contact{leaseTime, leaseTime}, false, 1, errLeaderless},
		} {
			time.Sleep(c.after)
			heard, asked = c.heard, 0
			if current, err := l.check(t.Context()); current != c.current || !errors.Is(err, c.fails) || asked != c.asks {
				t.Errorf("%+v: %t, %v, asked %d times", c, current, err, asked)
			}
		}
	})
}

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
