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
	patience := attemptTimeout
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(deadline))
	}
	seq, copies, err = l.send(a, patience)
	if patience == attemptTimeout || !errors.Is(err, nats.ErrTimeout) {
		l.heard(err)
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
//
// It need not know the newest message, so it does not ask whether the leader is still one.
func (l *JetStream) landed(ctx context.Context, a Append, sent bool) (uint64, error) {
	for {
		var tail []Record
		err := l.ownerTail(ctx, a.Family, a.Owner, a.Expected, true, func(r Record) error {
			if tail = append(tail, r); len(tail) > mostBack {
				return errMany
			}
			return nil
		})
		switch {
		case len(tail) > 0 && tail[0].CommandID == a.CommandID:
			return tail[0].Seq, nil
		case errors.Is(err, errMany):
			return 0, fmt.Errorf("append: %w", ErrConflict)
		case err == nil && (len(tail) > 0 || !sent):
			return 0, fmt.Errorf("append: %w", Conflict{tail})
		case err == nil:
			return 0, errInFlight
		}
		if !l.again(ctx) {
			return 0, fmt.Errorf("append: look whether an earlier attempt was stored: %w: %w", ErrUncertain, err)
		}
	}
}

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

// isRefusal: the server answered that it did not store this attempt's message. 10158 is the
// answer of a cluster that is still storing the message of an earlier attempt: the outcome is
// not known yet.
func isRefusal(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode != errCodeStoreFailed && api.ErrorCode != 10158
}

// errNotSent: the caller's context ended before the message was sent.
var errNotSent = errors.New("not sent")

// errMany ends the read of a tail that is too long to be held in memory.
var errMany = errors.New("many messages")

// errInFlight: the server refused because of a message that no read returns yet.
var errInFlight = errors.New("the owner's newest message cannot be read yet")

// isNeverSent: the message did not reach any server that could store it.
func isNeverSent(err error) bool {
	return errors.Is(err, errNotSent) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionClosed)
}
