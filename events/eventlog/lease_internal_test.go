package eventlog

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestMajorityContact(t *testing.T) {
	t.Parallel()
	of := func(leader string, heard ...time.Duration) *jetstream.ClusterInfo {
		c := &jetstream.ClusterInfo{Leader: leader}
		for _, h := range heard {
			c.Replicas = append(c.Replicas, &jetstream.PeerInfo{Active: h})
		}
		return c
	}
	for name, c := range map[string]struct {
		cluster *jetstream.ClusterInfo
		want    time.Duration
		fails   bool
	}{
		"no cluster":              {nil, 0, false},
		"one replica":             {of("a"), 0, false},
		"three, one is away":      {of("a", 9, 2), 2, false},
		"three, one never came":   {of("a", 0, 2), 2, false},
		"three, nobody ever came": {of("a", 0, 0), 0, true},
		"three without a leader":  {of("", 1, 2), 0, true},
		"five, two are away":      {of("a", 9, 2, 8, 1), 2, false},
		"five, three are away":    {of("a", 9, 7, 8, 1), 7, false},
		"five, one ever came":     {of("a", 0, 0, 0, 1), 0, true},
	} {
		if got, err := majorityContact(c.cluster); got != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
}

// TestALeaseIsAskedForWhenItEnds: when the lease has ended, one of the callers that need it
// asks for a new one.
func TestALeaseIsAskedForWhenItEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, ago := 0, time.Second
		l := &lease{asking: make(chan struct{}, 1), contact: func(context.Context) (time.Duration, error) {
			asked++
			time.Sleep(time.Millisecond)
			return ago, nil
		}}
		check := func(want int, fails bool) {
			t.Helper()
			done := make(chan error)
			for range 5 {
				go func() { done <- l.check(t.Context()) }()
			}
			for range 5 {
				if err := <-done; (err != nil) != fails || fails && !errors.Is(err, ErrUnavailable) {
					t.Error(err)
				}
			}
			if asked != want {
				t.Errorf("asked %d times, want %d", asked, want)
			}
		}
		check(1, false)
		time.Sleep(leaseTime - time.Second - 10*time.Millisecond)
		check(1, false)
		time.Sleep(10 * time.Millisecond)
		check(2, false)
		ago = 2 * leaseTime
		time.Sleep(leaseTime)
		check(7, true) // each caller asks: the next answer may differ
	})
}
