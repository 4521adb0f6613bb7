package projector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

// SliceSubscriber is a watermill Subscriber whose messages are slices of the log. A message
// carries its slice in its context, see sliceOf: it never leaves the process, so its payload
// is empty. The subscriber sends a slice after the previous one was acknowledged. After a nack
// it ends: the next session reads the checkpoint and follows the log from there.
//
// The follower gathers the next slice once the current one is applied and the pace allows it.
// So a reader that is behind gets long slices, and a reader that keeps up gets short ones.
type SliceSubscriber struct {
	follower   eventlog.Follower
	from       uint64
	maxRecords int

	cancel  context.CancelFunc
	running sync.WaitGroup
	err     error // of the follower; read it after running.Wait
}

// pace is the least time from one slice to the next: a transaction costs the database the
// same for one message as for fifty. A message that arrives after a pause this long is sent at
// once. A reader waits at most this long for what was just written.
const pace = 5 * time.Millisecond

// NewSliceSubscriber returns a subscriber over a follower of the log, for one Subscribe. from
// is the first sequence wanted. A slice has at most maxRecords records.
func NewSliceSubscriber(follower eventlog.Follower, from uint64, maxRecords int) *SliceSubscriber {
	return &SliceSubscriber{follower: follower, from: from, maxRecords: maxRecords, cancel: func() {}}
}

// Subscribe implements message.Subscriber. There is only one log, so the topic is
// ignored. The channel is closed when ctx ends, when a slice is nacked, or when the log
// can no longer be followed; Err returns the reason in the last case.
func (s *SliceSubscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	ctx, s.cancel = context.WithCancel(ctx)
	out := make(chan *message.Message)
	s.running.Go(func() {
		defer close(out)
		cfg := eventlog.FollowConfig{From: s.from, MaxRecords: s.maxRecords, MaxBytes: maxSliceBytes}
		err := s.follower.Follow(ctx, cfg, func(slice eventlog.Slice) error { return pass(ctx, slice, out) })
		if ctx.Err() == nil && !errors.Is(err, errNacked) {
			s.err = err
		}
	})
	return out, nil
}

var errNacked = errors.New("the slice was nacked")

// pass sends a slice, and returns when the next one may follow.
func pass(ctx context.Context, slice eventlog.Slice, out chan<- *message.Message) error {
	paced := time.NewTimer(pace)
	defer paced.Stop()
	msg := message.NewMessageWithContext(context.WithValue(ctx, sliceKey{}, slice), fmt.Sprintf("%d to %d", slice.First, slice.Last), nil)
	select {
	case out <- msg:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-msg.Acked():
	case <-msg.Nacked():
		return errNacked
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-paced.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close implements message.Subscriber. It waits until the follower has returned.
func (s *SliceSubscriber) Close() error {
	s.cancel()
	s.running.Wait()
	return nil
}

// Err returns why the log could no longer be followed, or nil if the subscription was
// ended from outside. Call it after the channel was closed.
func (s *SliceSubscriber) Err() error {
	s.running.Wait()
	return s.err
}

type sliceKey struct{}

// sliceOf returns the slice of a message.
func sliceOf(msg *message.Message) eventlog.Slice {
	return msg.Context().Value(sliceKey{}).(eventlog.Slice)
}

// decoder reads messages. It is for one goroutine.
type decoder struct {
	only     func(events.Subject) bool // subjects whose messages are decoded; nil means all
	subjects map[string]events.Subject // parsed and valid
}

// decode decodes a slice's messages after a sequence, except those that only rejects.
func (d *decoder) decode(raw eventlog.Slice, after uint64) (Slice, error) {
	slice := Slice{First: raw.First, Last: raw.Last}
	for i := range raw.Records {
		r := &raw.Records[i]
		slice.Stored = r.Time
		if r.Seq <= after {
			continue
		}
		record, wanted, err := d.record(r)
		if err != nil {
			return Slice{}, fmt.Errorf("sequence %d: %w", r.Seq, err)
		}
		if wanted {
			if slice.Records == nil {
				slice.Records = make([]Record, 0, len(raw.Records)-i)
			}
			slice.Records = append(slice.Records, record)
		}
	}
	return slice, nil
}

// record decodes a message, unless its subject is not wanted. It checks that the events
// match the subject, so that a reader of subjects and a reader of events agree.
func (d *decoder) record(r *eventlog.Record) (record Record, wanted bool, err error) {
	subject, known := d.subjects[r.Subject]
	if !known {
		if subject, err = events.ParseSubject(r.Subject); err != nil {
			return Record{}, false, err
		}
		if len(d.subjects) >= 1<<16 || d.subjects == nil {
			d.subjects = make(map[string]events.Subject)
		}
		d.subjects[r.Subject] = subject
	}
	if d.only != nil && !d.only(subject) {
		return Record{}, false, nil
	}
	batch, err := events.DecodeBatch(r.Payload)
	if err != nil {
		return Record{}, false, err
	}
	if err := subject.Admits(batch); err != nil {
		return Record{}, false, err
	}
	return Record{Seq: r.Seq, Family: subject.Family, Owner: subject.Owner, Events: batch}, true, nil
}
