package eventlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/memory-ledger/ledger/events"
)

const (
	// tailRecords and tailPayload bound what a Tail holds: 2,048 messages of
	// 8 KiB, 16 MiB at the most. A larger message is left out, and read from
	// the log.
	tailRecords = 2048
	tailPayload = 8 << 10
	// A follower turns to the tail once all messages of tailTrial, tailRate a
	// second at least, were of this process. One that was let down by it waits
	// tailPenalty before it trusts it again.
	tailTrial   = 100 * time.Millisecond
	tailRate    = 200
	tailPenalty = time.Second
	// tailPace is the least time between two slices from the tail, so that a
	// busy follower takes several messages at a time.
	tailPace = time.Millisecond
	// tailQuiet is how long a follower waits for the next message before it
	// looks at the log: the bound on how late it sees what others append. It is
	// some times longer than a message may be acknowledged, and so kept, after
	// the one that follows it.
	tailQuiet = 20 * time.Millisecond
)

// Tail keeps what this process appended a moment ago, so that followers in the
// same process need not be sent what they are about to read: delivery costs the
// server and its client about as much as the append. It is a shortcut and
// nothing else: what it does not hold, whoever appended it, comes from the log.
//
// It is for a process that the log's server does not outlive. A server that
// came back with less than it had acknowledged would give the same sequences to
// other messages, and a tail that remembered the first ones would be wrong.
type Tail struct {
	mu     sync.Mutex
	ring   [tailRecords]Record // by sequence
	more   chan struct{}       // closed by the next put; nil while nobody waits
	newest uint64
}

// WithTail returns the log with a tail: what is appended through it is kept
// there once it is on stable storage, and Follow reads there what it can. The
// time of such a Record is zero, since only the server knows it.
func (l *JetStream) WithTail(t *Tail) *JetStream {
	tailed := *l
	tailed.tail = t
	return &tailed
}

// StoredAt returns when the log stored a message. It asks where the record does not
// say, as one of a [Tail] does not, by its Seq and Subject.
//
// Errors: ErrGap where the log has another message at that sequence, or none;
// events.ErrSubject; those of the log, which say nothing about the message.
func StoredAt(ctx context.Context, log Reader, r Record) (stored time.Time, err error) {
	if !r.Time.IsZero() {
		return r.Time, nil
	}
	of, err := events.ParseSubject(r.Subject)
	if err != nil {
		return stored, fmt.Errorf("sequence %d: %w", r.Seq, err)
	}
	err = log.OwnerTail(ctx, of.Family, of.Owner, r.Seq-1, func(found Record) error {
		if found.Seq == r.Seq {
			stored = found.Time
		}
		return errOne
	})
	switch {
	case err != nil && !errors.Is(err, errOne):
		return stored, fmt.Errorf("look when sequence %d was stored: %w", r.Seq, err)
	case stored.IsZero():
		return stored, fmt.Errorf("the log does not have the message at sequence %d: %w", r.Seq, ErrGap)
	}
	return stored, nil
}

// errOne ends a read after its first message.
var errOne = errors.New("one is enough")

// put keeps a message that is on stable storage.
func (t *Tail) put(r Record) {
	if len(r.Payload) > tailPayload {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ring[r.Seq%tailRecords] = r
	t.newest = max(t.newest, r.Seq)
	if t.more != nil {
		close(t.more)
		t.more = nil
	}
}

// holds reports whether it has the messages from first to last.
func (t *Tail) holds(first, last uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for seq := first; seq <= last; seq++ {
		if t.ring[seq%tailRecords].Seq != seq {
			return false
		}
	}
	return true
}

// take returns the messages from a sequence on, without a gap, and where there
// are none a channel that is closed when there is news.
func (t *Tail) take(from uint64, maxRecords, maxBytes int) ([]Record, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var records []Record
	for size := 0; len(records) < maxRecords && size < maxBytes; from++ {
		r := &t.ring[from%tailRecords]
		if r.Seq != from {
			break
		}
		if records == nil {
			records = make([]Record, 0, min(uint64(maxRecords), max(1, t.newest+1-from)))
		}
		records = append(records, *r)
		size += len(r.Payload)
	}
	if len(records) > 0 {
		return records, nil
	}
	if t.more == nil {
		t.more = make(chan struct{})
	}
	return nil, t.more
}

// errOwn ends the following of the log: the tail goes on from here.
var errOwn = errors.New("what is new is in the tail")

// followTailed follows the log, and the tail while this process is the one that
// fills it.
func (l *JetStream) followTailed(ctx context.Context, cfg FollowConfig, yield func(Slice) error) error {
	cfg.From = max(1, cfg.From)
	cfg.MaxRecords, cfg.MaxBytes = cfg.bounds()
	notBefore := time.Now()
	for {
		trial := trial{tail: l.tail, since: notBefore}
		err := l.followLog(ctx, cfg, func(s Slice) error {
			if err := yield(s); err != nil {
				return err
			}
			cfg.From = s.Last + 1
			return trial.judge(&s, time.Now())
		})
		if !errors.Is(err, errOwn) {
			return err
		}
		first := cfg.From
		late, err := l.tail.follow(ctx, &cfg, yield)
		if err != nil || ctx.Err() != nil {
			return err
		}
		if notBefore = time.Now(); late || cfg.From == first {
			notBefore = notBefore.Add(tailPenalty)
		}
	}
}

// trial finds out whether the log is filled by this process: over a while, and
// some time later, since the server shows a message before it is acknowledged
// and kept.
type trial struct {
	tail        *Tail
	since       time.Time
	until       time.Time // when the messages from first to last were all there
	first, last uint64
}

// judge returns errOwn once it is.
func (t *trial) judge(s *Slice, now time.Time) error {
	switch {
	case now.Before(t.since):
	case t.first == 0:
		t.since, t.first = now, s.First
	case t.until.IsZero():
		if t.last = s.Last; now.Sub(t.since) >= tailTrial {
			t.until = now
		}
	case now.Sub(t.until) >= tailQuiet:
		n := t.last + 1 - t.first
		often := float64(n) >= tailRate*t.until.Sub(t.since).Seconds()
		if often && t.tail.holds(max(t.first, t.last-min(t.last, tailRecords/2)), t.last) {
			return errOwn
		}
		*t = trial{tail: t.tail, since: now}
	}
	return nil
}

// follow yields what the tail holds from cfg.From on, which it moves, until
// nothing came for a while. late says that something came, but not what was
// due: it is somebody else's, or was not kept.
func (t *Tail) follow(ctx context.Context, cfg *FollowConfig, yield func(Slice) error) (late bool, err error) {
	pace := time.NewTimer(0)
	defer pace.Stop()
	for {
		select {
		case <-pace.C:
		case <-ctx.Done():
			return false, nil
		}
		records, more := t.take(cfg.From, cfg.MaxRecords, cfg.MaxBytes)
		if len(records) == 0 {
			if records, late = t.await(ctx, cfg, more); len(records) == 0 {
				return late, nil
			}
		}
		last := records[len(records)-1].Seq
		if err := yield(Slice{First: cfg.From, Last: last, Records: records}); err != nil {
			return false, err
		}
		cfg.From = last + 1
		pace.Reset(tailPace)
	}
}

// await waits for the message that is due.
func (t *Tail) await(ctx context.Context, cfg *FollowConfig, more <-chan struct{}) (records []Record, late bool) {
	quiet := time.NewTimer(tailQuiet)
	defer quiet.Stop()
	for {
		select {
		case <-more:
		case <-quiet.C:
			return nil, t.isBeyond(cfg.From)
		case <-ctx.Done():
			return nil, false
		}
		if records, more = t.take(cfg.From, cfg.MaxRecords, cfg.MaxBytes); len(records) > 0 {
			return records, false
		}
	}
}

// isBeyond reports whether something newer than seq was kept.
func (t *Tail) isBeyond(seq uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.newest > seq
}
