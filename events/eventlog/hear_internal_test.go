package eventlog

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// TestFollowed: a leader counts only if a majority follows it in its own term. A replica that
// votes for another enters a later term, without a leader.
func TestFollowed(t *testing.T) {
	t.Parallel()
	node := func(name, state, leader string, term int) string {
		return fmt.Sprintf(`{"server":{"name":%q},"data":{"LEDGER":{"G":{"id":"id-%s","state":%q,"leader":%q,"term":%d}}}}`, name, name, state, leader, term)
	}
	leads := node("a", "LEADER", "id-a", 7)
	for name, c := range map[string]struct {
		nodes []string
		want  bool
	}{
		"all follow":                         {[]string{node("b", "FOLLOWER", "id-a", 7), leads, node("c", "FOLLOWER", "id-a", 7)}, true},
		"one is away":                        {[]string{leads, node("c", "FOLLOWER", "id-a", 7)}, true},
		"one votes for another":              {[]string{leads, node("c", "FOLLOWER", "", 8)}, false},
		"one follows another":                {[]string{leads, node("c", "FOLLOWER", "id-b", 8), node("b", "LEADER", "id-b", 8)}, false},
		"it is alone":                        {[]string{leads}, false},
		"it leads no more":                   {[]string{node("a", "FOLLOWER", "id-a", 7), node("c", "FOLLOWER", "id-a", 7)}, false},
		"a node that does not keep the log":  {[]string{leads, `{"server":{"name":"d"},"data":{}}`}, false},
		"a node that answers something else": {[]string{"?", leads, node("b", "FOLLOWER", "id-a", 7)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := &jetstream.ClusterInfo{Leader: "a", RaftGroup: "G", Replicas: make([]*jetstream.PeerInfo, 2)}
			heard, followed := votes{count: map[following]int{}}, false
			for _, answer := range c.nodes {
				followed = heard.add([]byte(answer), cluster) || followed
			}
			if followed != c.want {
				t.Errorf("%t", followed)
			}
		})
	}
}
