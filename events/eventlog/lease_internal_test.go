package eventlog

import (
	"context"
	"errors"
	"math"
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
