package eventlog

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// delivered is a message as a consumer delivers it.
type delivered struct {
	jetstream.Msg
	consumer, stream uint64
}

func (d delivered) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{Sequence: jetstream.SequencePair{Consumer: d.consumer, Stream: d.stream}}, nil
}
func (d delivered) Subject() string      { return "s" }
func (d delivered) Headers() nats.Header { return nil }
func (d delivered) Data() []byte         { return []byte("0123456789") }

// A message that the server sent but that never arrived is not a gap in the log: it is
// requested again. A message that the log does not have is a gap.
func TestLostIsNotAGap(t *testing.T) {
	t.Parallel()
	g := newGatherer(FollowConfig{MaxBytes: 20}, 5, 9)
	for i, step := range []struct {
		brought []delivered
		fresh   bool // consumer
		want    error
		records int
		next    uint64
	}{
		{[]delivered{{consumer: 1, stream: 5}}, true, nil, 1, 6},
		{[]delivered{{consumer: 3, stream: 7}}, false, errLost, 0, 6},
		{[]delivered{{consumer: 1, stream: 6}, {consumer: 3, stream: 8}}, true, errLost, 1, 7}, // the message before the loss counts
		{[]delivered{{consumer: 1, stream: 6}}, true, ErrGap, 0, 7},                            // a repeated message
		{[]delivered{{consumer: 1, stream: 8}}, true, ErrGap, 0, 7},
		{[]delivered{{consumer: 1, stream: 7}, {consumer: 2, stream: 8}, {consumer: 3, stream: 9}}, true, nil, 2, 9}, // the slice reached MaxBytes
		{[]delivered{{consumer: 3, stream: 9}, {consumer: 4, stream: 10}}, false, nil, 1, 10},                        // nothing after the last sequence
	} {
		if step.fresh {
			g.place = 1
		}
		incoming := make(chan jetstream.Msg, len(step.brought))
		for _, msg := range step.brought[1:] {
			incoming <- msg
		}
		slice, _, err := g.gather(step.brought[0], incoming)
		if !errors.Is(err, step.want) || len(slice.Records) != step.records || g.next != step.next {
			t.Errorf("step %d: %v, %d records, next is %d", i, err, len(slice.Records), g.next)
		}
		if n := uint64(step.records); n > 0 && (slice.Last != g.next-1 || slice.First != g.next-n) {
			t.Errorf("step %d: a slice from %d to %d", i, slice.First, slice.Last)
		}
	}
	if !g.done() {
		t.Errorf("it is at %d", g.next)
	}
}

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
