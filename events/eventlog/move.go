package eventlog

import (
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// mover takes a client to another node if the log does not answer at its own. During an
// election no node answers: then the client goes round until one does.
type mover struct {
	nc *nats.Conn

	mu    sync.Mutex
	since time.Time // start of the oldest attempt that got no answer, after the last answer
	moved time.Time
}

// answered notes that the leader has answered.
func (m *mover) answered() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.since = time.Time{}
}

// unanswered notes an attempt that got no answer.
func (m *mover) unanswered(began time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.since.IsZero() {
		m.since = began
	}
	// This is how long the log may be silent before the client goes to another node of the
	// cluster. The cause may be the node, or the way from there to the leader.
	if time.Since(m.since) >= 2*time.Second {
		m.move()
	}
}

// leave goes to another node at once.
func (m *mover) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.move()
}

// at reports whether the client is at the node of that name, or can't choose.
func (m *mover) at(node string) bool {
	return node == "" || len(m.nc.Servers()) < 2 || m.nc.ConnectedServerName() == node
}

// move interrupts the connection: all requests without an answer are sent again at the next
// node.
func (m *mover) move() {
	// This is the least time between two moves.
	if time.Since(m.moved) < 500*time.Millisecond || !m.nc.IsConnected() || len(m.nc.Servers()) < 2 {
		return
	}
	m.moved, m.since = time.Now(), time.Time{}
	go func() { _ = m.nc.ForceReconnect() }() // fails if the connection is closed
}

// isLeaderless: the server answered that the cluster has no leader.
func isLeaderless(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == errCodeNoLeader
}

// errCodeNoLeader is the answer of a node that has not heard from the cluster's leader for
// long.
const errCodeNoLeader jetstream.ErrorCode = 10008
