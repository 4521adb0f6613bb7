package eventlog

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// leaseTime is for how long after it heard from a majority a leader is taken for the
// only one. The others elect another one 4 s after they last heard from it, at the
// earliest (minElectionTimeoutDefault in nats-server 2.15); the rest is for their
// answers to arrive, and for clocks that go at different paces.
const leaseTime = 3 * time.Second

// lease tells whether the stream's leader may still be believed. The server hands out
// messages as its leader for as long as it takes itself for that: one that was cut off
// from the others finds out after ten seconds and more, and they acknowledge without it
// meanwhile. But it says when it last heard from each of them.
//
// What is left is a leader that one of three can't reach and the other can: it learns
// from that one, within a heartbeat of a second, that there is another.
type lease struct {
	// contact returns how long ago, before the question or after, the leader last
	// heard from so many that they and it are a majority.
	contact func(context.Context) (time.Duration, error)
	asking  chan struct{} // holds one while a caller asks
	until   atomic.Pointer[time.Time]
}

func newLease(js jetstream.JetStream) *lease {
	return &lease{asking: make(chan struct{}, 1), contact: func(ctx context.Context) (time.Duration, error) {
		stream, err := js.Stream(ctx, StreamName)
		if err != nil {
			return 0, err
		}
		return majorityContact(stream.CachedInfo().Cluster)
	}}
}

// check returns an error if an answer that the leader has given by now may be old. It
// mostly needs no request to the server.
func (l *lease) check(ctx context.Context) error {
	now := time.Now()
	if l.holds(now) {
		return nil
	}
	select {
	case l.asking <- struct{}{}:
		defer func() { <-l.asking }()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	if l.holds(now) {
		return nil // another caller asked
	}
	asked := time.Now()
	ago, err := l.contact(ctx)
	if err != nil {
		return fmt.Errorf("%w: whether the leader is one: %w", ErrUnavailable, err)
	}
	until := asked.Add(leaseTime - ago)
	l.until.Store(&until)
	if !l.holds(now) {
		return fmt.Errorf("%w: the leader has not heard from a majority for %s", ErrUnavailable, ago.Round(time.Millisecond))
	}
	return nil
}

func (l *lease) holds(at time.Time) bool {
	until := l.until.Load()
	return until != nil && at.Before(*until)
}

// majorityContact is how long ago a leader last heard from so many of its stream's
// other replicas that they and it are a majority; 0 where it is one by itself.
func majorityContact(cluster *jetstream.ClusterInfo) (time.Duration, error) {
	if cluster == nil || len(cluster.Replicas) == 0 {
		return 0, nil
	}
	if cluster.Leader == "" {
		return 0, fmt.Errorf("there is no leader")
	}
	heard := make([]time.Duration, 0, len(cluster.Replicas))
	for _, peer := range cluster.Replicas {
		if peer.Active > 0 { // 0: never
			heard = append(heard, peer.Active)
		}
	}
	// Of n others and itself, more than half.
	needed := (len(cluster.Replicas) + 1) / 2
	if len(heard) < needed {
		return 0, fmt.Errorf("the leader has heard from %d of %d others", len(heard), len(cluster.Replicas))
	}
	slices.Sort(heard)
	return heard[needed-1], nil
}
