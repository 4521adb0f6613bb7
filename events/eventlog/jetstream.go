package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
)

const (
	// duplicateWindow is how long a server with the only replica remembers command
	// ids: as short as it takes them. It takes one message after the other and looks
	// at what a message expects first, so a repeated append never gets as far
	// (landed tells whose it was); and what it remembers is its memory and its
	// collector's work, 2 MB for each second of 10,000 appends.
	duplicateWindow = 100 * time.Millisecond
	// replicatedWindow is the same where there are more of them. Their leader looks
	// for ids first, and tells an append that is still on its way to the others
	// from one that conflicts by them: the window has to outlast the retries of an
	// append. (Idempotency of requests is decided from the events, anywhere.)
	replicatedWindow = 2 * time.Minute
	// attemptTimeout is how long one publish waits for its answer before the
	// same bytes are sent again.
	attemptTimeout = 2 * time.Second
	// retryPause is waited between attempts while no server answers.
	retryPause = 100 * time.Millisecond
)

// JetStream is the log on a NATS JetStream stream.
type JetStream struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	inboxes *inboxes
	// clustered: the server was one of a cluster when the stream was opened; see
	// askLeader.
	clustered bool
	// disk tells of a server that could not store.
	disk *disk
	// damage tells of messages that the server has and can't give.
	damage *damage
	// lease tells of a leader that may not be one any more.
	lease *lease
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
		Discard:     jetstream.DiscardNew, // a full log refuses; it never forgets
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

// Refit gives a stream that an earlier build made the duplicate window of
// StreamConfig, and leaves one alone whose window is no longer than that. It needs the
// rights of an administrator.
//
// The server writes the stream's description and then the description's checksum. A
// crash between the two leaves a stream that the next start does not open; to create
// it then finds its messages.
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
	stream, err := js.Stream(ctx, StreamName)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w: %w", StreamName, ErrUnavailable, err)
	}
	return &JetStream{
		nc: nc, js: js, inboxes: newInboxes(nc), disk: &disk{}, damage: &damage{}, lease: newLease(js),
		clustered: stream.CachedInfo().Config.Replicas > 1 || nc.ConnectedClusterName() != "",
	}, nil
}

// Sync implements Syncer. The server syncs a message before it acknowledges it.
func (l *JetStream) Sync(context.Context) error { return nil }

// Append implements Appender.
func (l *JetStream) Append(ctx context.Context, a Append) (Appended, error) {
	seq, err := l.store(ctx, a)
	return Appended{Seq: seq}, err
}

// store publishes until the server says that the message is stored, or that it
// is not.
//
// A crash of this process after the publish leaves the message stored or not;
// the caller's client has no answer and finds out by reading, or by repeating
// the request with its Idempotency-Key.
func (l *JetStream) store(ctx context.Context, a Append) (uint64, error) {
	sent := false
	for {
		seq, err := l.publish(ctx, a)
		switch {
		case err == nil:
			return seq, nil
		case isWrongSequence(err):
			return l.landed(ctx, a, sent)
		case isRefusal(err) && !sent:
			return 0, fmt.Errorf("append: %w: %w", ErrUnavailable, err)
		case !isNeverSent(err):
			sent = true // a refusal of this attempt says nothing of one before it
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
// It waits for its answer also where ctx is cancelled meanwhile, as long as ctx
// and the attempt had time: what was sent will be stored or not, and to know it
// is worth more than to be gone sooner.
func (l *JetStream) publish(ctx context.Context, a Append) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("%w: %w", errNotSent, err)
	}
	patience := attemptTimeout
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(deadline))
	}
	seq, err := l.send(a, patience)
	if patience == attemptTimeout || !errors.Is(err, nats.ErrTimeout) {
		l.disk.note(err, time.Now())
	}
	return seq, err
}

// send is one attempt.
func (l *JetStream) send(a Append, patience time.Duration) (uint64, error) {
	subject := events.Subject{Family: a.Family, Owner: a.Owner, Kind: a.Kind}
	reply, err := l.inboxes.request(&nats.Msg{
		Subject: subject.String(),
		Data:    a.Payload,
		Header: nats.Header{
			jetstream.MsgIDHeader:                   {a.CommandID},
			jetstream.ExpectedStreamHeader:          {StreamName},
			jetstream.ExpectedLastSubjSeqHeader:     {strconv.FormatUint(a.Expected, 10)},
			jetstream.ExpectedLastSubjSeqSubjHeader: {events.OwnerFilter(a.Family, a.Owner)},
		},
	}, patience)
	if err != nil {
		return 0, err
	}
	return decodeAck(reply.Data)
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

// landed finds out whether a refused append is our own from an earlier
// attempt whose answer was lost: the server checks the expectation before it
// looks for duplicates. Only one message can ever be the first one of the
// owner after Expected, so its command id decides.
//
// A leader also refuses because of a message that its replicas have not agreed on
// yet, which no read returns. After an attempt that was sent, that message may be our
// own, so landed waits until it can be read.
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
			err = errInFlight
		}
		if !l.again(ctx) {
			return 0, fmt.Errorf("append: look whether an earlier attempt was stored: %w: %w", ErrUncertain, err)
		}
	}
}

// Connection returns another number after each time that the connection to the server
// was lost: another one, or another log, may answer since.
func (l *JetStream) Connection() uint64 { return l.nc.Stats().Reconnects + 1 }

func isWrongSequence(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
			api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// errCodeStoreFailed is what a server answers whose disk failed during the
// write: what reached the disk is unknown.
const errCodeStoreFailed jetstream.ErrorCode = 10077

// errCodeInProcess is what a cluster answers while it is storing the message
// that an earlier attempt brought. Whether it does is not known yet.
const errCodeInProcess jetstream.ErrorCode = 10158

// isRefusal: the server answered that it did not store what this attempt
// brought.
func isRefusal(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode != errCodeStoreFailed && api.ErrorCode != errCodeInProcess
}

// errNotSent: the caller's time was over before the message was sent.
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

// again waits before another attempt. It reports false where there is to be none:
// ctx ended, or ends before that, or the connection is closed for good, as the
// client closes it once it has tried to reconnect as often as it may.
func (l *JetStream) again(ctx context.Context) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < retryPause {
		return false
	}
	return !l.nc.IsClosed() && Pause(ctx, retryPause)
}

// Pause waits for d and reports false if ctx ended before.
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
