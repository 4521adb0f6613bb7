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

// TestALeaseIsAskedForWhenItEnds: when the lease has ended, one of the callers that need it
// asks for a new one.
func TestALeaseIsAskedForWhenItEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, ago := 0, time.Second
		l := &lease{asking: make(chan struct{}, 1), contact: func(context.Context) (contact, error) {
			asked++
			time.Sleep(time.Millisecond)
			return contact{majority: ago, all: ago}, nil
		}}
		check := func(want int, fails bool) {
			t.Helper()
			done := make(chan error)
			for range 5 {
				go func() {
					current, err := l.check(t.Context())
					if err == nil && !current {
						err = errors.New("in doubt")
					}
					done <- err
				}()
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
