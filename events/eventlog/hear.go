package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// nodesPatience is how long the nodes have to say whom they follow.
	nodesPatience = 250 * time.Millisecond
	raftState     = "$SYS.REQ.SERVER.PING.RAFTZ"
)

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
	ctx, cancel := context.WithTimeout(ctx, nodesPatience)
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
	type following struct {
		leader string
		term   uint64
	}
	votes := map[following]int{}
	var leads following
	for {
		answer, err := answers.NextMsgWithContext(ctx)
		if err != nil {
			return false
		}
		var node nodeState
		if json.Unmarshal(answer.Data, &node) != nil {
			continue
		}
		for _, groups := range node.Data {
			is := groups[cluster.RaftGroup]
			votes[following{is.Leader, is.Term}]++
			if node.Server.Name == cluster.Leader && is.State == "LEADER" {
				leads = following{is.ID, is.Term}
			}
		}
		if leads.leader != "" && votes[leads] > (len(cluster.Replicas)+1)/2 {
			return true
		}
	}
}
