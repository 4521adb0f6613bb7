package projector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

// ErrSubscribed says that a SliceSubscriber was subscribed to twice. It is
// for one ordered reader.
var ErrSubscribed = errors.New("slice subscriber is in use")

// maxSubjects bounds the memory of subjects that were checked already.
const maxSubjects = 1 << 16

// SliceSubscriber is a watermill Subscriber whose messages are slices of the
// log. A message is sent once the one before it was acknowledged; one that is
// refused is sent again after a pause. While a slice is being worked on, and
// until the pace allows the next, that one is received, decoded and grown, so a
// reader that is behind gets long slices and one that keeps up gets short ones.
type SliceSubscriber struct {
	follower eventlog.Follower
	cfg      SliceConfig

	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

var _ message.Subscriber = (*SliceSubscriber)(nil)

// SliceConfig says where to begin and how long slices get.
type SliceConfig struct {
	From       uint64 // first sequence wanted; 0 means 1
	MaxRecords int    // most records in a slice; 0 means 2000
	MaxBytes   int    // payload bytes after which a slice grows no more; 0 means 8 MiB
	RetryPause time.Duration
	// Pace is the least time from one slice to the next, because a transaction
	// costs the database the same for one message as for fifty. It does not apply
	// if the next slice is long already, or if a caller waits for that slice or for
	// what follows it. A message that comes after a pause this long is sent at once.
	// 0 means no pace.
	Pace time.Duration
	// Awaited says what callers wait for. nil means that no caller can say so.
	Awaited *Awaited
	// Wants says which messages to decode, by partition and sequence; slices are
	// contiguous all the same, and may hold none. nil means all.
	Wants func(partition int, seq uint64) bool
	// Only says of which subjects to decode messages. nil means all.
	Only func(events.Subject) bool
	// Check, if set, is shown every message, also one that is not wanted. Its
	// error ends the subscription.
	Check func(*eventlog.Record) error
}

// Awaited is the newest message that a caller waits for. Its zero value is not
// usable: call NewAwaited.
type Awaited struct {
	seq  atomic.Uint64
	wake chan struct{} // holds one
}

// NewAwaited returns an Awaited that no caller has called Await on.
func NewAwaited() *Awaited { return &Awaited{wake: make(chan struct{}, 1)} }

// Await says that a caller waits for the message at seq, which may not have come
// from the log yet. Await itself never blocks.
func (a *Awaited) Await(seq uint64) {
	for {
		newest := a.seq.Load()
		if seq <= newest {
			return // the call that raised it has woken the receiver, or is about to
		}
		if a.seq.CompareAndSwap(newest, seq) {
			break
		}
	}
	select {
	case a.wake <- struct{}{}:
	default: // a wake-up is pending, and its receiver sees this seq
	}
}

// since reports whether Await was called for the message at seq or a later one.
func (a *Awaited) since(seq uint64) bool { return a != nil && a.seq.Load() >= seq }

// woken hands over a value after each Await that raised the sequence.
func (a *Awaited) woken() <-chan struct{} {
	if a == nil {
		return nil
	}
	return a.wake
}

// NewSliceSubscriber returns a subscriber over a follower of the log.
func NewSliceSubscriber(follower eventlog.Follower, cfg SliceConfig) *SliceSubscriber {
	if cfg.MaxRecords <= 0 {
		cfg.MaxRecords = defaultSliceRecords
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = defaultSliceBytes
	}
	if cfg.RetryPause <= 0 {
		cfg.RetryPause = defaultMinBackoff
	}
	cfg.From = max(1, cfg.From)
	return &SliceSubscriber{follower: follower, cfg: cfg}
}

type sliceKey struct{}

// SliceOf returns the slice that a message of a SliceSubscriber carries. It
// travels decoded, in the message's context: the payload is empty.
func SliceOf(msg *message.Message) (Slice, bool) {
	s, ok := sizedOf(msg)
	return s.Slice, ok
}

func sizedOf(msg *message.Message) (sized, bool) {
	s, ok := msg.Context().Value(sliceKey{}).(sized)
	return s, ok
}

// Subscribe implements message.Subscriber. The topic is of no importance:
// there is one log. The channel is closed when ctx ends or the log can't be
// followed any further; Err tells which.
func (s *SliceSubscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		return nil, ErrSubscribed
	}
	ctx, s.cancel = context.WithCancel(ctx)
	s.done = make(chan struct{})
	out := make(chan *message.Message)
	decoded := make(chan sized)
	go func() {
		defer close(decoded)
		err := s.follow(ctx, decoded)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.err = err
	}()
	go func() {
		defer close(s.done)
		defer close(out)
		s.emit(ctx, decoded, out)
		s.cancel() // a follower that still has something to hand over lets go of it
		for range decoded {
		}
	}()
	return out, nil
}

// Close implements message.Subscriber. It waits until the follower is gone.
func (s *SliceSubscriber) Close() error {
	s.mu.Lock()
	cancel, done := s.cancel, s.done
	s.mu.Unlock()
	if cancel != nil {
		cancel()
		<-done
	}
	return nil
}

// Err returns why the log could not be followed any further, nil where the
// subscription was ended from outside.
func (s *SliceSubscriber) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// follow decodes in the follower's goroutine: the next slice is decoded while
// this one is written.
func (s *SliceSubscriber) follow(ctx context.Context, decoded chan<- sized) error {
	d := decoder{wants: s.cfg.Wants, only: s.cfg.Only, check: s.cfg.Check}
	// Half a slice at a time, so that two of them make a whole one.
	cfg := eventlog.FollowConfig{From: s.cfg.From, MaxRecords: (s.cfg.MaxRecords + 1) / 2, MaxBytes: s.cfg.MaxBytes / 2}
	err := s.follower.Follow(ctx, cfg, func(raw eventlog.Slice) error {
		slice, failed := d.decode(raw)
		if slice.Last > 0 {
			select {
			case decoded <- slice:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return failed
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// sized is a decoded slice, how long its payloads were together, and the subject
// of its last message, which may be one that was not decoded.
type sized struct {
	Slice
	bytes   int
	subject string
}

// grow takes in the slice that follows.
func (s *sized) grow(more sized) {
	if s.Last == 0 {
		*s = more
		return
	}
	s.Last, s.Stored, s.subject = more.Last, more.Stored, more.subject
	s.Records = append(s.Records, more.Records...)
	s.bytes += more.bytes
}

// emit sends one slice after the other and lets the next one grow meanwhile.
func (s *SliceSubscriber) emit(ctx context.Context, decoded <-chan sized, out chan<- *message.Message) {
	var next sized
	var sent time.Time
	for {
		if next.Last == 0 {
			var open bool
			select {
			case next, open = <-decoded:
				if !open {
					return
				}
			case <-ctx.Done():
				return
			}
		}
		if !s.linger(ctx, sent, decoded, &next) {
			return
		}
		sent = time.Now()
		current := next
		next = sized{}
		for handled := false; !handled; {
			msg := message.NewMessageWithContext(context.WithValue(ctx, sliceKey{}, current),
				fmt.Sprintf("%d-%d", current.First, current.Last), nil)
			select {
			case out <- msg:
			case <-ctx.Done():
				return
			}
			var alive bool
			if handled, alive = s.await(ctx, msg, decoded, &next); !alive {
				return
			}
		}
	}
}

// linger lets a slice grow until the pace allows it. It reports false where ctx
// ended.
func (s *SliceSubscriber) linger(ctx context.Context, sent time.Time, decoded <-chan sized, next *sized) bool {
	wait := s.cfg.Pace - time.Since(sent)
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for !s.isLong(next) && !s.cfg.Awaited.since(next.First) {
		select {
		case <-timer.C:
			return true
		case <-s.cfg.Awaited.woken():
		case <-ctx.Done():
			return false
		case slice, open := <-decoded:
			if !open {
				return true // what came before is still seen through
			}
			next.grow(slice)
		}
	}
	return true
}

// isLong says that a slice should grow no more.
func (s *SliceSubscriber) isLong(slice *sized) bool {
	return 2*len(slice.Records) > s.cfg.MaxRecords || 2*slice.bytes > s.cfg.MaxBytes
}

// await waits for the answer to a message while the next slice grows.
func (s *SliceSubscriber) await(ctx context.Context, msg *message.Message, decoded <-chan sized, next *sized) (handled, alive bool) {
	for {
		more := decoded
		if s.isLong(next) {
			more = nil
		}
		select {
		case <-msg.Acked():
			return true, true
		case <-msg.Nacked():
			return false, eventlog.Pause(ctx, s.cfg.RetryPause)
		case <-ctx.Done():
			return false, false
		case slice, open := <-more:
			if !open {
				// The log is lost, but not what came before: this slice is
				// still seen through.
				decoded = nil
				continue
			}
			next.grow(slice)
		}
	}
}

// decoder reads messages. It is for one goroutine.
type decoder struct {
	wants    func(partition int, seq uint64) bool
	only     func(events.Subject) bool
	check    func(*eventlog.Record) error
	subjects map[string]events.Subject // that were checked already
}

// decode reads those of a slice's messages that are wanted. With an error it
// returns the slice up to the message before the one that can't be read, which
// is as good as any.
func (d *decoder) decode(raw eventlog.Slice) (sized, error) {
	slice := sized{Slice: Slice{First: raw.First}}
	for i := range raw.Records {
		r := &raw.Records[i]
		if d.check != nil {
			if err := d.check(r); err != nil {
				return slice, err
			}
		}
		// A subject that names no partition is everybody's to stumble over.
		if p, ok := events.PartitionIn(r.Subject); !ok || d.wants == nil || d.wants(p, r.Seq) {
			record, wanted, err := d.record(r)
			if err != nil {
				return slice, fmt.Errorf("sequence %d: %w", r.Seq, err)
			}
			if wanted {
				if slice.Records == nil {
					slice.Records = make([]Record, 0, len(raw.Records)-i)
				}
				slice.Records = append(slice.Records, record)
				slice.bytes += len(r.Payload)
			}
		}
		slice.Last, slice.Stored, slice.subject = r.Seq, r.Time, r.Subject
	}
	return slice, nil
}

// record decodes a message, unless its subject is not wanted. It checks that the
// message is what its subject says, so that readers of the one and of the other
// agree.
func (d *decoder) record(r *eventlog.Record) (record Record, wanted bool, err error) {
	subject, known := d.subjects[r.Subject]
	if !known {
		if subject, err = events.ParseSubject(r.Subject); err != nil {
			return Record{}, false, err
		}
		if len(d.subjects) >= maxSubjects || d.subjects == nil {
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
