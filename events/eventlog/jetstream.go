package eventlog

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
)

const (
	// attemptTimeout is how long one request waits for its answer before it is put again.
	attemptTimeout = 2 * time.Second
	// lostResend is how often an attempt on a cluster sends its message, and silentResend the
	// same while the stream's leader is silent. A message is lost if it is under way to a
	// leader that stops, or is sent while the nodes elect one.
	lostResend, silentResend = 500 * time.Millisecond, 250 * time.Millisecond
	// retryPause is the wait between attempts while no server answers.
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
	// disk remembers a server that could not store.
	disk *disk
	// damage remembers a message that the server has but can't return.
	damage *damage
	// lease detects a leader that may no longer be the leader.
	lease *lease
	// silent: an attempt got no answer in time, and no other attempt has since got one.
	silent atomic.Bool
	mover  mover
	// asksNodes: the client may ask the nodes whom they follow.
	asksNodes atomic.Bool
}

var _ Log = (*JetStream)(nil)

// Config of the stream.
type Config struct {
	Replicas int // 1 or 3; 0 means 1
}

// StreamConfig returns the configuration of the one stream: file storage,
// nothing ever deleted.
func StreamConfig(cfg Config) jetstream.StreamConfig {
	replicas := max(1, cfg.Replicas)
	return jetstream.StreamConfig{
		Name:        StreamName,
		Description: "Memory Ledger: every fact, in order",
		Subjects:    events.StreamSubjects(),
		Storage:     jetstream.FileStorage,
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardNew, // a full log refuses new messages; it drops none
		DenyDelete:  true,
		DenyPurge:   true,
		AllowDirect: true,
		Duplicates:  windowOf(replicas),
		Replicas:    replicas,
	}
}

// windowOf returns how long the server remembers command ids. A server with the only replica
// checks a message's expectation first, so a repeated append never reaches the check for
// duplicates (landed finds out whose message was stored): the shortest window that it
// accepts will do, because ids cost memory. The leader of several replicas checks ids first.
// By the id it tells an append that is still being replicated from one that conflicts, so
// the window must outlast the retries of an append.
func windowOf(replicas int) time.Duration {
	if replicas > 1 {
		return 2 * time.Minute
	}
	return 100 * time.Millisecond
}

// Create makes the stream if there is none and opens it. It needs the rights
// of an administrator on a cluster with permissions.
func Create(ctx context.Context, nc *nats.Conn, cfg Config) (*JetStream, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	_, err = js.CreateStream(ctx, StreamConfig(cfg))
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil, fmt.Errorf("create stream %s: %w: %w", StreamName, ErrUnavailable, err)
	}
	return Open(ctx, nc)
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
	l := &JetStream{
		nc: nc, js: js, inboxes: newInboxes(nc), disk: &disk{}, damage: &damage{}, mover: mover{nc: nc},
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
func (l *JetStream) heard(began time.Time, err error) {
	var api *jetstream.APIError
	silent := errors.Is(err, nats.ErrTimeout) || isLeaderless(err)
	switch answered := err == nil || errors.As(err, &api); {
	case silent:
		l.silent.Store(true)
		l.mover.unanswered(began)
	case errors.Is(err, errLeaderless):
		l.mover.leave()
	case answered && l.silent.Load():
		l.silent.Store(false)
		l.mover.answered()
	}
}

// request puts a question to the server, which has attemptTimeout to answer.
func (l *JetStream) request(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	began := time.Now()
	reply, _, err := l.inboxes.request(ctx, &nats.Msg{Subject: subject, Data: body}, attemptTimeout, l.resend())
	if err != nil {
		l.heard(began, err)
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return reply, nil
}

// Connection returns a number that changes each time the connection to the server was
// lost and restored: since then another server, or another log, may answer.
func (l *JetStream) Connection() uint64 { return l.nc.Stats().Reconnects + 1 }

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

// Ask puts a question to the server. If no answer comes in time, it asks again until ctx
// ends: a cluster that is electing a leader loses the question. A server that is only slow
// gets more time with each attempt, up to a second.
func Ask(ctx context.Context, question func(context.Context) error) error {
	for patience := silentResend; ; patience = min(2*patience, time.Second) {
		asking, cancel := context.WithTimeout(ctx, patience)
		err := question(asking)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !Pause(ctx, retryPause) {
			return err
		}
	}
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
