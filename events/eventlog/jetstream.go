package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// attemptTimeout is how long one request waits for its answer before it is put again.
	attemptTimeout = 2 * time.Second
	// lostResend is how often an attempt on a cluster sends its message, and silentResend the
	// same while the stream's leader is silent. A message is lost if it is under way to a
	// leader that stops, or is sent while the nodes elect one.
	lostResend, silentResend = 500 * time.Millisecond, 250 * time.Millisecond
	// retryPause is the wait between attempts while no server answers, and between looks for
	// new messages without a consumer.
	retryPause = 100 * time.Millisecond
)

// JetStream is the log on a NATS JetStream stream.
type JetStream struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	inboxes *inboxes
	// clustered: the server was in a cluster, or the stream had several replicas, when
	// the stream was opened; see askLeader.
	clustered bool
	// damage remembers a message that the server has but can't return.
	damage atomic.Pointer[damage]
	// lease detects a leader that may no longer be the leader.
	lease *lease
	// silent: an attempt got no answer in time, and no other attempt has since got one.
	silent atomic.Bool
}

var _ Log = (*JetStream)(nil)

// Restoring marks, in a stream's metadata, one that was not restored to its end.
const Restoring = "ledger-restoring"

// CheckRestored returns ErrUnavailable for a stream with that mark: what is stored there would
// be lost when it is restored again.
func CheckRestored(stream jetstream.Stream) error {
	if stream.CachedInfo().Config.Metadata[Restoring] == "" {
		return nil
	}
	return fmt.Errorf("%w: %s is being restored, or a restore broke off: run it again", ErrUnavailable, stream.CachedInfo().Config.Name)
}

// Open opens an existing stream.
func Open(ctx context.Context, nc *nats.Conn) (*JetStream, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	var stream jetstream.Stream
	err = Ask(ctx, func(ctx context.Context) (err error) {
		stream, err = js.Stream(ctx, StreamName)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w: %w", StreamName, ErrUnavailable, err)
	}
	if err := CheckRestored(stream); err != nil {
		return nil, err
	}
	l := &JetStream{
		nc: nc, js: js, inboxes: newInboxes(nc),
		clustered: stream.CachedInfo().Config.Replicas > 1 || nc.ConnectedClusterName() != "",
	}
	l.lease = newLease(l)
	return l, nil
}

// resend returns how long an attempt waits before it sends its message again.
func (l *JetStream) resend() time.Duration {
	switch {
	case l.silent.Load():
		return silentResend
	case l.askLeader():
		return lostResend
	}
	return attemptTimeout
}

// heard notes the result of an attempt at which only the leader answers, or that waited for
// attemptTimeout. Other errors say nothing about the leader.
func (l *JetStream) heard(err error) {
	var api *jetstream.APIError
	silent := errors.Is(err, nats.ErrTimeout) || isLeaderless(err)
	switch answered := err == nil || errors.As(err, &api); {
	case silent:
		l.silent.Store(true)
	case errors.Is(err, errLeaderless):
		l.inboxes.leave(500 * time.Millisecond)
	case answered:
		l.silent.Store(false)
		l.inboxes.answered()
	}
}

// request puts a question to the server, which has attemptTimeout to answer.
func (l *JetStream) request(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	reply, _, err := l.inboxes.request(ctx, &nats.Msg{Subject: subject, Data: body}, attemptTimeout, l.resend())
	if err != nil {
		l.heard(err)
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return reply, nil
}

// Connection returns a number that changes each time the connection to the server was
// lost and restored: since then another server, or another log, may answer.
func (l *JetStream) Connection() uint64 { return l.inboxes.connection() + 1 }

// again waits before another attempt. It returns false if there must not be another
// one: ctx has ended or would leave it less than retryPause for an answer, or the
// connection is closed for good. The client closes the connection once it has used up its
// attempts to reconnect.
func (l *JetStream) again(ctx context.Context) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < 2*retryPause {
		return false
	}
	return !l.nc.IsClosed() && Pause(ctx, retryPause)
}

// Ask puts a question to the server. If no answer comes in time, or a node knows no leader,
// it asks again until ctx ends: a cluster that is electing a leader loses the question. A
// server that is only slow gets more time with each attempt, up to a second.
func Ask(ctx context.Context, question func(context.Context) error) error {
	for patience := silentResend; ; patience = min(2*patience, time.Second) {
		asking, cancel := context.WithTimeout(ctx, patience)
		err := question(asking)
		cancel()
		again := isUnanswered(err) || errors.Is(err, nats.ErrDisconnected)
		if !again || !Pause(ctx, retryPause) {
			return err
		}
	}
}

// isUnanswered: a question had no answer in time, or only that of a node without a leader.
func isUnanswered(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || isLeaderless(err)
}

// Ask is the function of that name, for questions about other streams. If they have no answer,
// it takes the client to another node, even if the log answers at this one: the streams' leaders
// may be at different nodes, and only a node that reaches both can serve the client.
func (l *JetStream) Ask(ctx context.Context, question func(context.Context) error) error {
	began := time.Now()
	return Ask(ctx, func(ctx context.Context) error {
		err := question(ctx)
		if isUnanswered(err) && time.Since(began) >= 800*time.Millisecond { // two attempts
			l.inboxes.leave(time.Second)
		}
		return err
	})
}

// Pause waits for d and returns false if ctx ended first.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// keptInboxes bounds how many inboxes wait for their next request.
const keptInboxes = 256

// inboxes sends requests to the server. nats.Conn.RequestMsg has one inbox for all
// requests, and the inbox's goroutine passes each answer on to its caller. Here the
// connection passes the answer on itself, to an inbox that one request at a time uses.
// So one goroutine fewer wakes up between a write and its acknowledgement.
type inboxes struct {
	mover
	free chan *inbox
}

type inbox struct {
	subject string // of the answers, without the number of their request
	number  uint64 // of the last request
	answers chan *nats.Msg
	sub     *nats.Subscription
	patient *time.Timer
}

func newInboxes(nc *nats.Conn) *inboxes {
	return &inboxes{mover: mover{nc: nc}, free: make(chan *inbox, keptInboxes)}
}

// request sends a message and waits for its answer. Until that arrives, it sends the message
// again and again, at the given interval, if that is shorter than patience; an answer to any
// copy counts. A copy follows soon after the client has come to another node. request also
// waits on if a node answers that it knows no leader, because another node may. That answer
// may have taken the place of the leader's own, since a request into another account gets
// one answer: so then, too, the next copy follows soon. request returns how many
// copies it sent. Errors are ctx's and those of nats.Conn.RequestMsg: nats.ErrTimeout,
// nats.ErrNoResponders, and any error that prevents the first copy from being sent.
func (i *inboxes) request(ctx context.Context, msg *nats.Msg, patience, again time.Duration) (answer *nats.Msg, copies int, err error) {
	began := time.Now()
	box, err := i.take(patience)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err == nil && copies == 1 {
			i.put(box)
		} else {
			box.discard() // answers to the copies may fill it
		}
	}()
	var repeat *time.Timer
	var due <-chan time.Time
	if again < patience {
		repeat = time.NewTimer(min(again, retryPause))
		defer repeat.Stop()
		due = repeat.C
	}
	box.number++
	msg.Reply = box.subject + "." + strconv.FormatUint(box.number, 10)
	connection, sent := i.connection(), began
	if err := i.nc.PublishMsg(msg); err != nil {
		return nil, 0, err
	}
	var leaderless *nats.Msg
	for copies = 1; ; {
		select {
		case answer := <-box.answers:
			switch {
			case answer.Subject != msg.Reply: // a second node's answer to an earlier request
			case len(answer.Data) == 0 && answer.Header.Get("Status") == "503":
				if copies == 1 { // else an earlier copy may still be answered
					return nil, copies, nats.ErrNoResponders
				}
			case knowsNoLeader(answer):
				leaderless, sent = answer, time.Time{}
			default:
				return answer, copies, nil
			}
		case <-due:
			repeat.Reset(min(again, retryPause))
			i.unanswered(began, leaderless != nil)
			if now := i.connection(); now == connection && time.Since(sent) < again {
				continue
			} else if i.nc.PublishMsg(msg) == nil {
				if now != connection {
					leaderless = nil // it was another node's answer
				}
				connection, sent = now, time.Now()
				copies++
			}
		case <-box.patient.C:
			i.unanswered(began, leaderless != nil)
			if leaderless != nil {
				return leaderless, copies, nil
			}
			return nil, copies, nats.ErrTimeout
		case <-ctx.Done():
			return nil, copies, ctx.Err()
		}
	}
}

// knowsNoLeader reports whether a node answers that the cluster has no leader. A message of
// the log, as a direct get returns it, has a header.
func knowsNoLeader(answer *nats.Msg) bool {
	return len(answer.Header) == 0 && len(answer.Data) < 1024 && bytes.Contains(answer.Data, []byte(`"err_code":10008`))
}

func (i *inboxes) take(patience time.Duration) (*inbox, error) {
	for free := true; free; {
		select {
		case box := <-i.free:
			if len(box.answers) > 0 {
				box.discard() // second answers to the last request would fill it
				continue
			}
			box.patient.Reset(patience)
			return box, nil
		default:
			free = false
		}
	}
	box := &inbox{subject: i.nc.NewInbox(), answers: make(chan *nats.Msg, 8)}
	var err error
	if box.sub, err = i.nc.ChanSubscribe(box.subject+".*", box.answers); err != nil {
		return nil, err
	}
	box.patient = time.NewTimer(patience)
	return box, nil
}

// put keeps an inbox for reuse after its answer arrived.
func (i *inboxes) put(box *inbox) {
	box.patient.Stop()
	select {
	case i.free <- box:
	default:
		box.discard()
	}
}

func (b *inbox) discard() {
	b.patient.Stop()
	_ = b.sub.Unsubscribe() // fails if the connection is gone, and the subscription with it
}

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

// unanswered notes that an attempt has no answer yet, or that nodes without a leader answered.
// The cause may be the node, or the way from there to the leader.
func (m *mover) unanswered(began time.Time, leaderless bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.since.IsZero() {
		if m.since = began; began.Before(m.answer) {
			m.since = m.answer
		}
	}
	if node := m.connection(); node != m.node {
		m.node, m.came = node, time.Now()
	}
	// This is how long the log may be silent before the client goes to another node of the
	// cluster; a node that knows no leader says so at once. Each node has half a second to
	// answer what is sent again, however long the way there took.
	silence, stay := time.Second, 500*time.Millisecond
	if leaderless {
		silence = 300 * time.Millisecond
	}
	if time.Since(m.since) >= silence && time.Since(m.came) >= stay {
		m.move(stay)
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

// isLeaderless: a node answered that it has not heard from the cluster's leader for long.
func isLeaderless(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == 10008
}
