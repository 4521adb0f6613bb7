package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
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

// plainAck is how the server begins the acknowledgement of a message that it
// stored; digits and a brace follow.
const plainAck = `{"stream":"` + StreamName + `","seq":`

// decodeAck reads a publish acknowledgement (JetStream wire API, JSPubAckResponse).
func decodeAck(data []byte) (uint64, error) {
	if digits, ok := strings.CutPrefix(string(data), plainAck); ok {
		if digits, ok := strings.CutSuffix(digits, "}"); ok {
			if seq, err := strconv.ParseUint(digits, 10, 64); err == nil && seq > 0 {
				return seq, nil
			}
		}
	}
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
		next, found, err := l.next(ctx, a.Expected+1, events.OwnerFilter(a.Family, a.Owner))
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

// Head implements Reader. The newest message of all tells it: nothing is ever
// deleted, and getting a message is cheaper for the server than describing the
// stream.
func (l *JetStream) Head(ctx context.Context) (uint64, error) {
	record, _, err := l.newest(ctx, everySubject)
	if err != nil {
		return 0, fmt.Errorf("log head: %w", err)
	}
	return record.Seq, nil
}

// OwnerHead implements Reader.
func (l *JetStream) OwnerHead(ctx context.Context, f events.Family, o events.Owner) (uint64, error) {
	record, _, err := l.newest(ctx, events.OwnerFilter(f, o))
	if err != nil {
		return 0, fmt.Errorf("owner head: %w", err)
	}
	return record.Seq, nil
}

// OwnerNewest implements Reader.
func (l *JetStream) OwnerNewest(ctx context.Context, f events.Family, o events.Owner, kind events.SubjectKind) (Record, bool, error) {
	filter := events.OwnerFilter(f, o)
	if kind != "" {
		filter = events.Subject{Family: f, Owner: o, Kind: kind}.String()
	}
	record, found, err := l.newest(ctx, filter)
	if err != nil {
		return Record{}, false, fmt.Errorf("owner's newest message: %w", err)
	}
	return record, found, nil
}

// OwnerTail implements Reader.
func (l *JetStream) OwnerTail(ctx context.Context, f events.Family, o events.Owner, after uint64, yield func(Record) error) error {
	filter := events.OwnerFilter(f, o)
	for {
		record, found, err := l.next(ctx, after+1, filter)
		if err != nil {
			return fmt.Errorf("owner tail: %w", err)
		}
		if !found {
			return nil
		}
		if err := yield(record); err != nil {
			return err
		}
		after = record.Seq
	}
}

// getRequest is the body of a JetStream message get.
type getRequest struct {
	Seq           uint64 `json:"seq,omitempty"`
	LastBySubject string `json:"last_by_subj,omitempty"`
	NextBySubject string `json:"next_by_subj,omitempty"`
}

// get reads one message; found is false where there is none.
func (l *JetStream) get(ctx context.Context, request getRequest) (record Record, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	body, err := json.Marshal(request)
	if err != nil {
		return Record{}, false, err
	}
	subject, decode := "$JS.API.DIRECT.GET."+StreamName, decodeDirect
	leader := l.askLeader()
	if leader {
		subject, decode = "$JS.API.STREAM.MSG.GET."+StreamName, decodeStored
	}
	reply, err := l.nc.RequestWithContext(ctx, subject, body)
	if err != nil {
		return Record{}, false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if leader {
		if err := l.lease.check(ctx); err != nil {
			return Record{}, false, err
		}
	}
	return decode(reply)
}

// askLeader reports whether a read has to go to the stream's leader. On a stream
// with replicas any of them answers a direct get, also one that is behind, and a
// read that misses an acknowledged append would break the fence. A stream can be
// given replicas at any time, and on a cluster alone; so there the leader is
// asked even while it is the only one. While the connection is away it knows of no
// cluster, but keeps requests for the next server.
func (l *JetStream) askLeader() bool { return l.clustered || l.nc.ConnectedClusterName() != "" }

// decodeDirect reads the answer of a direct get: the message itself, its
// place in the stream in headers.
func decodeDirect(reply *nats.Msg) (Record, bool, error) {
	switch status := reply.Header.Get("Status"); status {
	case "":
	case "404":
		return Record{}, false, nil
	default:
		return Record{}, false, fmt.Errorf("%w: direct get answered %s %s", ErrUnavailable, status, reply.Header.Get("Description"))
	}
	seq, err := strconv.ParseUint(reply.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return Record{}, false, fmt.Errorf("%w: direct get without a sequence", ErrUnavailable)
	}
	stored, err := time.Parse(time.RFC3339Nano, reply.Header.Get(jetstream.TimeStampHeaer))
	if err != nil {
		return Record{}, false, fmt.Errorf("%w: direct get without a time", ErrUnavailable)
	}
	return Record{
		Seq: seq, Time: stored, Payload: reply.Data,
		Subject:   reply.Header.Get(jetstream.SubjectHeader),
		CommandID: reply.Header.Get(jetstream.MsgIDHeader),
	}, true, nil
}

// decodeStored reads the leader's answer, which wraps the message in JSON.
func decodeStored(reply *nats.Msg) (Record, bool, error) {
	var answer struct {
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return Record{}, false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if answer.Error != nil {
		if answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound {
			return Record{}, false, nil
		}
		return Record{}, false, fmt.Errorf("%w: %w", ErrUnavailable, answer.Error)
	}
	if answer.Message == nil {
		return Record{}, false, fmt.Errorf("%w: answer without a message", ErrUnavailable)
	}
	var header nats.Header
	if len(answer.Message.Header) > 0 { // other writers may send none
		var err error
		if header, err = nats.DecodeHeadersMsg(answer.Message.Header); err != nil {
			return Record{}, false, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	return Record{
		Seq: answer.Message.Seq, Subject: answer.Message.Subject, Time: answer.Message.Time,
		Payload: answer.Message.Data, CommandID: header.Get(jetstream.MsgIDHeader),
	}, true, nil
}

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
