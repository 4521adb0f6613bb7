package projector

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

// SliceSubscriber is a watermill Subscriber whose messages are slices of the log. It
// sends a slice after the previous one was acknowledged. After a nack it ends: the next
// session reads the checkpoint and follows the log from there.
//
// The next slice grows while the current one is applied, and until the pace allows the
// next one. So a reader that is behind gets long slices, and a reader that keeps up gets
// short ones.
type SliceSubscriber struct {
	follower eventlog.Follower
	cfg      SliceConfig

	cancel  context.CancelFunc
	running sync.WaitGroup
	err     error // of the follower; read it after running.Wait
}

// SliceConfig sets where to begin and how long slices become.
type SliceConfig struct {
	From       uint64 // first sequence wanted; 0 means 1
	MaxRecords int    // maximum records in a slice; 0 means 2000
	MaxBytes   int    // payload bytes at which a slice stops growing; 0 means 8 MiB
	// Pace is the least time from one slice to the next, unless the next one is already
	// long: a transaction costs the database the same for one message as for fifty. A
	// message that arrives after a pause this long is sent at once. 0 means no pace.
	Pace time.Duration
}

// NewSliceSubscriber returns a subscriber over a follower of the log, for one Subscribe.
func NewSliceSubscriber(follower eventlog.Follower, cfg SliceConfig) *SliceSubscriber {
	cfg.MaxRecords = orDefault(cfg.MaxRecords, defaultSliceRecords)
	cfg.MaxBytes = orDefault(cfg.MaxBytes, defaultSliceBytes)
	return &SliceSubscriber{follower: follower, cfg: cfg, cancel: func() {}}
}

// Subscribe implements message.Subscriber. There is only one log, so the topic is
// ignored. The channel is closed when ctx ends, when a slice is nacked, or when the log
// can no longer be followed; Err returns the reason in the last case.
func (s *SliceSubscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	ctx, s.cancel = context.WithCancel(ctx)
	received, out := make(chan eventlog.Slice), make(chan *message.Message)
	s.running.Go(func() {
		defer close(received)
		s.err = s.follow(ctx, received)
	})
	s.running.Go(func() {
		defer close(out)
		defer s.cancel() // otherwise the follower would block on received
		s.emit(ctx, received, out)
	})
	return out, nil
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

func (s *SliceSubscriber) follow(ctx context.Context, received chan<- eventlog.Slice) error {
	// Receive half a slice at a time, so that two halves make a whole slice.
	cfg := eventlog.FollowConfig{From: s.cfg.From, MaxRecords: (s.cfg.MaxRecords + 1) / 2, MaxBytes: s.cfg.MaxBytes / 2}
	err := s.follower.Follow(ctx, cfg, func(slice eventlog.Slice) error {
		select {
		case received <- slice:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// emit sends the slices one by one, and lets the next one grow meanwhile. If the follower
// fails, emit still sends the messages that it has received.
func (s *SliceSubscriber) emit(ctx context.Context, received <-chan eventlog.Slice, out chan<- *message.Message) {
	pace := time.NewTimer(0)
	defer pace.Stop()
	var next growing
	var acked, nacked <-chan struct{} // of the slice being applied
	paced, lost := true, false
	for {
		isLong := 2*len(next.Records) > s.cfg.MaxRecords || 2*next.bytes > s.cfg.MaxBytes
		idle, empty := acked == nil, next.Last == 0
		switch {
		case idle && empty && lost:
			return
		case idle && !empty && (paced || isLong || lost):
			msg := message.NewMessageWithContext(ctx, fmt.Sprintf("%d to %d", next.First, next.Last), marshal(&next))
			select {
			case out <- msg:
			case <-ctx.Done():
				return
			}
			acked, nacked = msg.Acked(), msg.Nacked()
			next, paced = growing{}, s.cfg.Pace <= 0
			pace.Reset(s.cfg.Pace)
			continue
		}
		more := received
		if isLong || lost {
			more = nil
		}
		select {
		case slice, open := <-more:
			if lost = !open; open {
				next.grow(slice)
			}
		case <-acked:
			acked, nacked = nil, nil
		case <-nacked:
			return
		case <-pace.C:
			paced = true
		case <-ctx.Done():
			return
		}
	}
}

// growing is a slice and the total length of its payloads.
type growing struct {
	eventlog.Slice
	bytes int
}

func (g *growing) grow(more eventlog.Slice) {
	if g.Last == 0 {
		g.First = more.First
	}
	g.Last, g.Records = more.Last, append(g.Records, more.Records...)
	for i := range more.Records {
		g.bytes += len(more.Records[i].Payload)
	}
}

// marshal encodes a slice as the payload of a message: its bounds, then each record's
// sequence, time, subject and bytes. It is handwritten because a slice holds two thousand
// records, and package gob takes 3.5 µs per record, a third of a replay.
func marshal(slice *growing) []byte {
	const perRecord = 160 // typical size of subject, sequence, time and two lengths
	b := make([]byte, 0, 20+slice.bytes+perRecord*len(slice.Records))
	b = binary.AppendUvarint(b, slice.First)
	b = binary.AppendUvarint(b, slice.Last)
	for i := range slice.Records {
		r := &slice.Records[i]
		b = binary.AppendUvarint(b, r.Seq)
		b = binary.AppendUvarint(b, uint64(r.Time.UnixNano()))
		b = append(binary.AppendUvarint(b, uint64(len(r.Subject))), r.Subject...)
		b = append(binary.AppendUvarint(b, uint64(len(r.Payload))), r.Payload...)
	}
	return b
}

var errPayload = errors.New("the message's payload is not a slice")

// unmarshal returns the slice of a message. Its payloads share memory with b.
func unmarshal(b []byte) (slice eventlog.Slice, err error) {
	number := func() uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			b, err = nil, errPayload
			return 0
		}
		b = b[size:]
		return n
	}
	text := func() []byte {
		n := number()
		if n > uint64(len(b)) {
			b, err = nil, errPayload
			return nil
		}
		t := b[:n:n]
		b = b[n:]
		return t
	}
	slice.First, slice.Last = number(), number()
	for len(b) > 0 {
		r := eventlog.Record{Seq: number(), Time: time.Unix(0, int64(number()))}
		r.Subject, r.Payload = string(text()), text()
		slice.Records = append(slice.Records, r)
	}
	if n := len(slice.Records); err == nil && (n == 0 || slice.Records[n-1].Seq != slice.Last) {
		err = errPayload
	}
	return slice, err
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
	return Record{Seq: r.Seq, Family: subject.Family, Owner: subject.Owner, Stored: r.Time, Events: batch}, true, nil
}
