package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
)

const (
	// duplicateWindow is how long a server with the only replica remembers command
	// ids: the shortest window that the server accepts. The server handles one message
	// after the other and checks a message's expectation first, so a repeated append
	// never reaches the check for duplicates (landed finds out whose message was
	// stored). Remembered ids cost memory and garbage collection, 2 MB for each second
	// of 10,000 appends.
	duplicateWindow = 100 * time.Millisecond
	// replicatedWindow is the window of a stream with several replicas. Their leader
	// checks ids first. By the id it tells an append that is still being replicated
	// from one that conflicts, so the window must outlast the retries of an append.
	// (Idempotency of requests is decided from the events, in both cases.)
	replicatedWindow = 2 * time.Minute
	// attemptTimeout is how long one publish waits for its answer before the
	// same bytes are sent again.
	attemptTimeout = 2 * time.Second
	// lostResend is how often an attempt on a cluster sends its message. A message is lost if
	// it is under way to a leader that stops.
	lostResend = 500 * time.Millisecond
	// silentResend is the same while the stream's leader is silent. A message that is sent
	// while the nodes elect a leader is lost.
	silentResend = 250 * time.Millisecond
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

func windowOf(replicas int) time.Duration {
	if replicas > 1 {
		return replicatedWindow
	}
	return duplicateWindow
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

// Refit shortens the duplicate window of a stream that an earlier build made to the
// window of StreamConfig. It changes nothing if the window is not longer than that. It
// needs the rights of an administrator.
//
// The server writes the stream's description and then the description's checksum. After
// a crash between the two, the next start does not open the stream; creating it again
// then finds its messages.
func (l *JetStream) Refit(ctx context.Context) error {
	stream, err := l.js.Stream(ctx, StreamName)
	if err != nil {
		return fmt.Errorf("look at stream %s: %w: %w", StreamName, ErrUnavailable, err)
	}
	cfg := stream.CachedInfo().Config
	window := windowOf(cfg.Replicas)
	if cfg.Duplicates <= window {
		return nil
	}
	cfg.Duplicates = window
	if _, err := l.js.UpdateStream(ctx, cfg); err != nil {
		return fmt.Errorf("update stream %s: %w: %w", StreamName, ErrUnavailable, err)
	}
	return nil
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

// Append implements Appender. It publishes until the server reports that the message is
// stored, or that it is not. The server syncs a message before it acknowledges it, unless
// it leaves that to [WithGroupSync].
//
// If this process crashes after the publish, the message may or may not be stored.
// The caller's client gets no answer. It finds out by reading, or by repeating the
// request with its Idempotency-Key.
func (l *JetStream) Append(ctx context.Context, a Append) (uint64, error) {
	sent := false
	for {
		seq, copies, err := l.publish(ctx, a)
		sent = sent || copies > 1 // the answer may be to a later copy
		switch {
		case err == nil:
			return seq, nil
		case IsWrongSequence(err):
			seq, looked := l.landed(ctx, a, sent)
			if !errors.Is(looked, errInFlight) {
				return seq, looked
			}
			err = looked // that message may be lost with its leader: only another attempt can tell
		case isRefusal(err) && !sent:
			return 0, fmt.Errorf("append: %w: %w", ErrUnavailable, err)
		case !isNeverSent(err):
			sent = true // a refusal of a later attempt says nothing about this one
		}
		if !l.again(ctx) {
			if sent {
				return 0, fmt.Errorf("append: %w: %w", ErrUncertain, err)
			}
			return 0, fmt.Errorf("append: %w: %w", ErrUnavailable, err)
		}
	}
}

// publish sends one message and waits for its acknowledgement. It is
// jetstream.PublishMsg without the general handling of options and answers,
// which showed in the profile of every write.
//
// If ctx is canceled meanwhile, publish still waits for the answer, until the deadline
// of ctx or the timeout of the attempt. The message was sent, and to know whether it is
// stored is worth more than to return sooner.
func (l *JetStream) publish(ctx context.Context, a Append) (seq uint64, copies int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, fmt.Errorf("%w: %w", errNotSent, err)
	}
	began, patience := time.Now(), attemptTimeout
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(deadline))
	}
	seq, copies, err = l.send(a, patience)
	if patience == attemptTimeout || !errors.Is(err, nats.ErrTimeout) {
		l.heard(began, err)
		l.disk.note(err, time.Now())
	}
	return seq, copies, err
}

// send makes one attempt to publish.
func (l *JetStream) send(a Append, patience time.Duration) (seq uint64, copies int, err error) {
	subject := events.Subject{Family: a.Family, Owner: a.Owner, Kind: a.Kind}
	reply, copies, err := l.inboxes.request(context.Background(), &nats.Msg{
		Subject: subject.String(),
		Data:    a.Payload,
		Header: nats.Header{
			jetstream.MsgIDHeader:                   {a.CommandID},
			jetstream.ExpectedStreamHeader:          {StreamName},
			jetstream.ExpectedLastSubjSeqHeader:     {strconv.FormatUint(a.Expected, 10)},
			jetstream.ExpectedLastSubjSeqSubjHeader: {events.OwnerFilter(a.Family, a.Owner)},
		},
	}, patience, l.resend())
	if err != nil {
		return 0, copies, err
	}
	seq, err = decodeAck(reply.Data)
	return seq, copies, err
}

// decodeAck reads a publish acknowledgement (JetStream wire API, JSPubAckResponse).
func decodeAck(data []byte) (uint64, error) {
	var ack struct {
		Error *jetstream.APIError `json:"error"`
		*jetstream.PubAck
	}
	if err := json.Unmarshal(data, &ack); err != nil {
		return 0, fmt.Errorf("publish acknowledgement: %w", err)
	}
	switch {
	case ack.Error != nil:
		return 0, ack.Error
	case ack.PubAck == nil || ack.Stream != StreamName || ack.Sequence == 0:
		return 0, fmt.Errorf("publish acknowledgement without a sequence of stream %s", StreamName)
	}
	return ack.Sequence, nil
}

// landed finds out whether the message that caused a refusal is our own, stored by an
// earlier attempt whose answer was lost: the server checks the expectation before it
// looks for duplicates. Only one message can ever be the owner's first after Expected,
// so the command id of that message decides.
//
// A leader also refuses because of a message that its replicas have not agreed on
// yet. No read returns that message. If an earlier attempt was sent, the message may be
// our own, or be lost with its leader: landed returns errInFlight.
func (l *JetStream) landed(ctx context.Context, a Append, sent bool) (uint64, error) {
	for {
		var next Record
		err := l.OwnerTail(ctx, a.Family, a.Owner, a.Expected, func(r Record) error { next = r; return errOne })
		found := errors.Is(err, errOne)
		if found {
			err = nil
		}
		switch {
		case err == nil && found && next.CommandID == a.CommandID:
			return next.Seq, nil
		case err == nil && (found || !sent):
			return 0, fmt.Errorf("append: %w", ErrConflict)
		case err == nil:
			return 0, errInFlight
		}
		if !l.again(ctx) {
			return 0, fmt.Errorf("append: look whether an earlier attempt was stored: %w: %w", ErrUncertain, err)
		}
	}
}

// Connection returns a number that changes each time the connection to the server was
// lost and restored: since then another server, or another log, may answer.
func (l *JetStream) Connection() uint64 { return l.nc.Stats().Reconnects + 1 }

// IsWrongSequence reports whether the server refused a message because the newest one on its
// subject is not the expected one. Streams with replicas have an error code of their own.
func IsWrongSequence(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
			api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// errCodeStoreFailed is the answer of a server whose disk failed during the write. It
// is unknown how much of the message reached the disk.
const errCodeStoreFailed jetstream.ErrorCode = 10077

// errCodeInProcess is the answer of a cluster that is still storing the message of an
// earlier attempt. The outcome is not known yet.
const errCodeInProcess jetstream.ErrorCode = 10158

// isRefusal: the server answered that it did not store this attempt's message.
func isRefusal(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode != errCodeStoreFailed && api.ErrorCode != errCodeInProcess
}

// errNotSent: the caller's context ended before the message was sent.
var errNotSent = errors.New("not sent")

// errOne ends a read after its first message.
var errOne = errors.New("one is enough")

// errInFlight: the server refused because of a message that no read returns yet.
var errInFlight = errors.New("the owner's newest message cannot be read yet")

// isNeverSent: the message did not reach any server that could store it.
func isNeverSent(err error) bool {
	return errors.Is(err, errNotSent) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionClosed)
}

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
