package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events/coalesce"
)

const (
	// leaseTime is how long a leader counts as the only one after it heard from the other
	// replicas. A replica stands for election 4 s after it last heard from the leader, at
	// the earliest (minElectionTimeoutDefault in nats-server 2.15). The difference allows
	// for the replicas' answers to arrive, and for clocks that run at different speeds.
	leaseTime = 3 * time.Second
	// doubtTime is how long no read asks again whether all replicas are there.
	doubtTime = 500 * time.Millisecond
)

// errLeaderless: the leader that answered has heard from no majority within leaseTime.
var errLeaderless = fmt.Errorf("%w: the leader has lost the majority", ErrUnavailable)

// lease reports whether the stream's leader can still be trusted. A server answers reads
// as the leader for as long as it considers itself the leader. A leader that was cut off
// from the other replicas notices that only after ten seconds or more. Meanwhile the
// others acknowledge messages without it.
//
// The leader reports when it last heard from each replica. That it heard from a majority a
// moment ago is no proof: a replica that can't reach it stands for election, and another may
// vote for that replica although it still hears from the leader. If the leader has heard
// from every replica within leaseTime, none of them has stood for election. Otherwise
// the read is in doubt until a majority has said that it follows this leader; see hear.
type lease struct {
	// contact returns how long ago the leader last heard from the others. That may be
	// before or after the request to the leader.
	contact func(context.Context) (contact, error)
	hear    coalesce.Calls[struct{}]
	asking  chan struct{} // full while a caller asks
	until   atomic.Pointer[time.Time]
	doubt   atomic.Pointer[time.Time] // until then, some replica is known to be silent
}

// contact says how long ago a leader last heard from enough of the other replicas to form
// a majority with them, and from all of them.
type contact struct{ majority, all time.Duration }

func newLease(l *JetStream) *lease {
	return &lease{
		asking: make(chan struct{}, 1),
		contact: func(ctx context.Context) (contact, error) {
			info, err := l.info(ctx, everySubject)
			if err != nil {
				return contact{}, err
			}
			return contactOf(info.Cluster)
		},
		hear: coalesce.Calls[struct{}]{Fetch: func(ctx context.Context) (struct{}, error) { return struct{}{}, l.hear(ctx) }},
	}
}

// check reports whether an answer that the leader has already given is current. If not, the
// answer is in doubt. Most calls need no request to the server.
func (l *lease) check(ctx context.Context) (current bool, err error) {
	now := time.Now()
	if l.holds(now) || before(&l.doubt, now) {
		return l.holds(now), nil
	}
	select {
	case l.asking <- struct{}{}:
		defer func() { <-l.asking }()
	case <-ctx.Done():
		return false, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	if l.holds(now) || before(&l.doubt, now) { // another caller asked
		return l.holds(now), nil
	}
	asked := time.Now()
	heard, err := l.contact(ctx)
	switch {
	case err != nil:
		return false, fmt.Errorf("%w: whether the leader is one: %w", ErrUnavailable, err)
	case heard.majority >= leaseTime:
		return false, errLeaderless
	case heard.all < leaseTime:
		until := asked.Add(leaseTime - heard.all)
		l.until.Store(&until)
	default:
		until := asked.Add(doubtTime)
		l.doubt.Store(&until)
	}
	return l.holds(now), nil
}

func (l *lease) holds(at time.Time) bool { return before(&l.until, at) }

func before(until *atomic.Pointer[time.Time], at time.Time) bool {
	is := until.Load()
	return is != nil && at.Before(*is)
}

// contactOf returns the contact of a leader. It is 0 if the leader is the only replica.
func contactOf(cluster *jetstream.ClusterInfo) (contact, error) {
	if cluster == nil || len(cluster.Replicas) == 0 {
		return contact{}, nil
	}
	if cluster.Leader == "" {
		return contact{}, fmt.Errorf("there is no leader")
	}
	heard := make([]time.Duration, 0, len(cluster.Replicas))
	for _, peer := range cluster.Replicas {
		if peer.Active == 0 { // never
			peer.Active = math.MaxInt64
		}
		heard = append(heard, peer.Active)
	}
	slices.Sort(heard)
	// The leader and this many others are more than half of all replicas.
	needed := (len(heard) + 1) / 2
	return contact{heard[needed-1], heard[len(heard)-1]}, nil
}

const raftState = "$SYS.REQ.SERVER.PING.RAFTZ"

// hear returns once a majority of the replicas has said, after the call, that it follows the
// leader: then no other has been elected before the call. hear asks the nodes, which takes a
// millisecond. A client without that permission waits until they have answered the leader
// anyway: after a write, or after its heartbeat, within two seconds.
//
// A message that would have to pass through the log, and not be stored, would prove the
// same. There is none: nats-server 2.15 closes a stream whose replicas refuse a message that
// they had agreed on.
//
// Of two servers that consider themselves the leader, either may answer a read that comes
// from the node of a third. So hear first goes to the leader's own node. Another leader does
// not answer there: the two can't reach each other, or one would have stepped down.
func (l *JetStream) hear(ctx context.Context) error {
	for since := time.Now(); ; {
		asked := time.Now()
		info, err := l.info(ctx, everySubject)
		if err == nil && info.Cluster == nil {
			return nil
		}
		var heard contact
		if err == nil {
			heard, err = contactOf(info.Cluster)
		}
		switch {
		case err != nil:
		case heard.majority >= leaseTime:
			err = errLeaderless
			l.heard(err)
		case !l.inboxes.at(info.Cluster.Leader):
			l.inboxes.leave(retryPause)
		case !asked.Add(-heard.majority).Before(since), l.followed(ctx, info.Cluster):
			return nil
		}
		// This is how often a read in doubt asks.
		if !Pause(ctx, 20*time.Millisecond) {
			return fmt.Errorf("%w: whether the leader is one: %w", ErrUnavailable, errors.Join(err, ctx.Err()))
		}
	}
}

// nodeState is what a node says of the stream's replicas.
type nodeState struct {
	Server struct{ Name string }
	Data   map[string]map[string]struct { // by account and group
		ID, State, Leader string
		Term              uint64
	}
}

// followed reports whether a majority of the replicas follows the leader, in the leader's
// term. A replica that votes for another is in a later term from then on, without a leader.
func (l *JetStream) followed(ctx context.Context, cluster *jetstream.ClusterInfo) bool {
	// This is how long the nodes have to say whom they follow.
	ctx, cancel := context.WithTimeout(ctx, 250*time.Millisecond)
	defer cancel()
	answers, err := l.nc.SubscribeSync(l.nc.NewInbox())
	if err != nil {
		return false
	}
	defer func() { _ = answers.Unsubscribe() }() // a closed connection has no subscription
	question := fmt.Appendf(nil, `{"account":"LEDGER","group":%q}`, cluster.RaftGroup)
	if l.nc.PublishRequest(raftState, answers.Subject, question) != nil {
		return false
	}
	for heard := (votes{count: map[following]int{}}); ; {
		answer, err := answers.NextMsgWithContext(ctx)
		if err != nil {
			return false
		}
		if heard.add(answer.Data, cluster) {
			return true
		}
	}
}

// votes counts the replicas by whom they follow.
type votes struct {
	count map[following]int
	leads following
}

type following struct {
	leader string
	term   uint64
}

// add counts a node's answer, and reports whether a majority follows the leader by now.
func (v *votes) add(answer []byte, cluster *jetstream.ClusterInfo) bool {
	var node nodeState
	if json.Unmarshal(answer, &node) != nil {
		return false
	}
	for _, groups := range node.Data {
		is := groups[cluster.RaftGroup]
		v.count[following{is.Leader, is.Term}]++
		if node.Server.Name == cluster.Leader && is.State == "LEADER" {
			v.leads = following{is.ID, is.Term}
		}
	}
	return v.leads.leader != "" && v.count[v.leads] > (len(cluster.Replicas)+1)/2
}
