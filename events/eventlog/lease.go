package eventlog

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// leaseTime is how long a leader counts as the only one after it heard from a majority.
// The other replicas elect a new leader 4 s after they last heard from it, at the
// earliest (minElectionTimeoutDefault in nats-server 2.15). The difference allows for
// their answers to arrive, and for clocks that run at different speeds.
const leaseTime = 3 * time.Second

// lease reports whether the stream's leader can still be trusted. A server answers reads
// as the leader for as long as it considers itself the leader. A leader that was cut off
// from the other replicas notices that only after ten seconds or more. Meanwhile the
// others acknowledge messages without it. But the leader reports when it last heard from
// each replica.
//
// One case remains: of three replicas, one can't reach the leader and another can. From
// the replica that can reach it, the leader learns within one heartbeat (a second) that
// there is a new leader.
type lease struct {
	// contact returns how long ago the leader last heard from enough replicas to form
	// a majority with them. That may be before or after the request to the leader.
	contact func(context.Context) (time.Duration, error)
	asking  chan struct{} // full while a caller asks
	until   atomic.Pointer[time.Time]
}

func newLease(l *JetStream) *lease {
	return &lease{asking: make(chan struct{}, 1), contact: func(ctx context.Context) (time.Duration, error) {
		info, err := l.info(ctx, everySubject)
		if err != nil {
			return 0, err
		}
		return majorityContact(info.Cluster)
	}}
}

// check returns an error if an answer that the leader has already given may be stale.
// Most calls need no request to the server.
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

// majorityContact returns how long ago a leader last heard from enough of its stream's
// other replicas to form a majority with them. It returns 0 if the leader alone is a
// majority.
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
	// The leader and this many others are more than half of all replicas.
	needed := (len(cluster.Replicas) + 1) / 2
	if len(heard) < needed {
		return 0, fmt.Errorf("the leader has heard from %d of %d others", len(heard), len(cluster.Replicas))
	}
	slices.Sort(heard)
	return heard[needed-1], nil
}
