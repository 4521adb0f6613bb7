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

	mu     sync.Mutex
	answer time.Time // the leader's last one
	since  time.Time // how long the log has been silent; zero if it is not known to be
	moved  time.Time
	node   uint64    // the connection that was seen last
	came   time.Time // when it was seen first
}

// connection returns a number that changes each time the client comes to a node.
func (m *mover) connection() uint64 { return m.nc.Stats().Reconnects }

// answered notes that the leader has answered.
func (m *mover) answered() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answer, m.since = time.Now(), time.Time{}
}

// unanswered notes that an attempt has no answer yet. The cause may be the node, or the way
// from there to the leader.
func (m *mover) unanswered(began time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.since.IsZero() {
		if m.since = began; began.Before(m.answer) {
			m.since = m.answer
		}
	}
	const just = 500 * time.Millisecond
	if node := m.connection(); node != m.node {
		m.node, m.came = node, time.Now()
	}
	// This is how long the log may be silent before the client goes to another node of the
	// cluster. There it sends again what has no answer, and gives that node half a second,
	// however long the way there took.
	if time.Since(m.since) >= time.Second && time.Since(m.came) >= just {
		m.move(just)
	}
}

// leave goes to another node, unless the client has just moved.
func (m *mover) leave(just time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.move(just)
}

// at reports whether the client is at the node of that name, or can't choose.
func (m *mover) at(node string) bool {
	return node == "" || len(m.nc.Servers()) < 2 || m.nc.ConnectedServerName() == node
}

// move interrupts the connection: all requests without an answer are sent again at the next
// node.
func (m *mover) move(just time.Duration) {
	if time.Since(m.moved) < just || !m.nc.IsConnected() || len(m.nc.Servers()) < 2 {
		return
	}
	m.moved = time.Now()
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
