package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrDamaged: the log's server can't return a message that it acknowledged. Only damage
// loses a message.
var ErrDamaged = errors.New("the log is damaged")

// cure is what an operator can do about damage.
const cure = "restore the log from a backup, or on a cluster refill the damaged node from the others; `ledger verify --replicas` says which node it is"

// gap returns the ErrGap of a reader that received a message other than the next one.
func gap(expected, got uint64) error {
	if got < expected {
		return fmt.Errorf("%w: expected sequence %d, got %d", ErrGap, expected, got)
	}
	return &GapError{expected, got}
}

// GapError reports that a server skipped the messages from sequence Expected up to, but
// not including, Got. It is ErrGap and ErrDamaged.
type GapError struct{ Expected, Got uint64 }

func (e *GapError) Error() string {
	return fmt.Sprintf("%v: expected sequence %d, got %d; the log's server can't read sequence %d from its disk, or lost it: %s",
		ErrGap, e.Expected, e.Got, e.Expected, cure)
}

func (*GapError) Is(target error) bool { return target == ErrGap || target == ErrDamaged }

// damage remembers the message that the server could not return to a reader of this
// process.
type damage struct {
	what error
	// again looks for the message: nil means that it can be read, or that the log, which may
	// have been restored, does not have it.
	again func(context.Context) error
}

// noteGap remembers the error of a read if it is a gap, and returns the error.
func (l *JetStream) noteGap(err error) error {
	var gap *GapError
	if errors.As(err, &gap) {
		l.damage.Store(&damage{gap, func(ctx context.Context) error {
			_, _, err := l.look(ctx, getRequest{Seq: gap.Expected}, l.reaches(gap.Expected))
			return err
		}})
	}
	return err
}

// Damaged returns an ErrDamaged if the server itself reports missing messages, or if it
// could not return a message to a reader of this process and still can't. It reads only
// that one message. An audit is needed to find damage that no reader has met.
func (l *JetStream) Damaged(ctx context.Context) error {
	info, err := l.info(ctx, everySubject)
	if err != nil {
		return err
	}
	if state := info.State; state.Msgs < state.LastSeq { // nothing is ever deleted
		return fmt.Errorf("%w: its server has %d of %d messages: %s", ErrDamaged, state.Msgs, state.LastSeq, cure)
	}
	found := l.damage.Load()
	if found == nil {
		return nil
	}
	if found.again(ctx) != nil {
		return found.what
	}
	l.damage.CompareAndSwap(found, nil) // a node was refilled, its disk is back, or the log was restored
	return nil
}

// Replica is a node that keeps the log.
type Replica struct {
	Node string
	// Missing says why the node can't be read up to the log's end now: it is away or
	// behind. It is empty if the node can be read.
	Missing string
	// Lost: the node is away or far behind; it does not just lack the latest messages.
	Lost bool
}

// Replication says which nodes keep the log, as the stream's leader sees it.
type Replication struct {
	Wanted   int       // how many nodes should keep it
	Replicas []Replica // the leader first
	Bytes    uint64    // size of the log on one node
}

// Current returns how many nodes have all of the log, or nearly all.
func (r Replication) Current() (n int) {
	for _, node := range r.Replicas {
		if !node.Lost {
			n++
		}
	}
	return n
}

// Err returns nil if at least Wanted nodes are current.
func (r Replication) Err() error {
	if r.Current() >= r.Wanted {
		return nil
	}
	var lost []string
	for _, node := range r.Replicas {
		if node.Lost {
			lost = append(lost, node.Node+": "+node.Missing)
		}
	}
	return fmt.Errorf("%d of %d replicas of the log are current: %s", r.Current(), r.Wanted, strings.Join(lost, ", "))
}

// Replication asks which nodes have the log. Every role may ask.
func (l *JetStream) Replication(ctx context.Context) (Replication, error) {
	info, err := l.info(ctx, everySubject)
	if err != nil {
		return Replication{}, fmt.Errorf("look at stream %s: %w", StreamName, err)
	}
	r := replicationOf(l.nc.ConnectedServerName(), info.Config.Replicas, info.Cluster)
	r.Bytes = info.State.Bytes
	return r, nil
}

// replicationOf treats the answering server as the leader if there is no cluster.
func replicationOf(server string, wanted int, cluster *jetstream.ClusterInfo) Replication {
	if cluster == nil || cluster.Leader == "" {
		return Replication{Wanted: wanted, Replicas: []Replica{{Node: server}}}
	}
	r := Replication{Wanted: wanted, Replicas: []Replica{{Node: cluster.Leader}}}
	for _, peer := range cluster.Replicas {
		node := Replica{Node: peer.Name}
		never := peer.Active == 0 && !peer.Current
		switch {
		// A replica answers the leader every second.
		case peer.Offline || never || peer.Active > 5*time.Second:
			node.Missing, node.Lost = "it is away", true
		case !peer.Current:
			// Under load each replica lacks some messages for a moment.
			node.Missing, node.Lost = "it is behind", peer.Lag > 10_000
		}
		r.Replicas = append(r.Replicas, node)
	}
	return r
}
