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
	// recentRecords and recentPayload bound what is kept: 2,048 messages of 8 KiB, 16 MiB
	// at most. A larger message is read from the log.
	recentRecords = 2048
	recentPayload = 8 << 10
	// A follower switches to memory once this process has appended all messages for
	// recentTrial, at least recentRate per second. If memory then lacks a message, the
	// follower waits recentPenalty before it trusts memory again.
	recentTrial   = 100 * time.Millisecond
	recentRate    = 200
	recentPenalty = time.Second
	// recentPace is the least time between two slices from memory, so that a busy follower
	// takes several messages at a time.
	recentPace = time.Millisecond
	// recentQuiet is how long a follower waits for the next message before it looks at the
	// log. It bounds how late the follower sees the appends of other processes. A message
	// may be acknowledged, and so kept, later than its successor; recentQuiet is several
	// times longer than that delay.
	recentQuiet = 20 * time.Millisecond
)

// RecentAppends is a log that keeps the latest appends of this process in memory. Followers
// in the same process read them there, so that the server need not deliver them: delivery
// costs the server and its client about as much as the append. Messages that it does not
// hold come from the log. The Time of a record that it holds is zero, because only the
// server knows it.
//
// It is for a process that the log's server does not outlive. A server that came back with
// less than it had acknowledged would give the same sequences to other messages.
type RecentAppends struct {
	Log

	mu     sync.Mutex
	ring   [recentRecords]Record // by sequence
	more   chan struct{}         // closed by the next put; nil while no follower waits
	newest uint64
}

// WithRecentAppends returns a log that keeps the messages appended through it, once they
// are on stable storage. Its Follow reads them from memory.
func WithRecentAppends(log Log) *RecentAppends { return &RecentAppends{Log: log} }

// Append implements Appender.
func (r *RecentAppends) Append(ctx context.Context, a Append) (Appended, error) {
	appended, err := r.Log.Append(ctx, a)
	if err != nil {
		return appended, err
	}
	stored := appended
	appended.Sync = func(ctx context.Context) error {
		if err := stored.Wait(ctx); err != nil {
			return err
		}
		subject := events.Subject{Family: a.Family, Owner: a.Owner, Kind: a.Kind}
		r.put(Record{Seq: stored.Seq, Subject: subject.String(), CommandID: a.CommandID, Payload: a.Payload})
		return nil
	}
	return appended, nil
}

// StoredAt returns when the log stored a message. If the record has no Time, as records of
// [RecentAppends] have none, StoredAt asks the log by the record's Seq and checks its
// Subject.
//
// Errors: ErrGap if the log has no message at that sequence, or one with another subject;
// errors of the log, which say nothing about the message.
func StoredAt(ctx context.Context, log Reader, r Record) (stored time.Time, err error) {
	if !r.Time.IsZero() {
		return r.Time, nil
	}
	found, _, err := log.At(ctx, r.Seq)
	if err != nil {
		return stored, fmt.Errorf("look when sequence %d was stored: %w", r.Seq, err)
	}
	if found.Subject != r.Subject {
		return stored, fmt.Errorf("the log does not have the message at sequence %d: %w", r.Seq, ErrGap)
	}
	return found.Time, nil
}

// put keeps a message that is on stable storage.
func (r *RecentAppends) put(record Record) {
	if len(record.Payload) > recentPayload {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring[record.Seq%recentRecords] = record
	r.newest = max(r.newest, record.Seq)
	if r.more != nil {
		close(r.more)
		r.more = nil
	}
}

// holds reports whether memory has all messages from first to last.
func (r *RecentAppends) holds(first, last uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for seq := first; seq <= last; seq++ {
		if r.ring[seq%recentRecords].Seq != seq {
			return false
		}
	}
	return true
}

// take returns the messages from a sequence on, without a gap. If there are none, it
// returns a channel that the next put closes.
func (r *RecentAppends) take(from uint64, maxRecords, maxBytes int) ([]Record, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var records []Record
	for size := 0; len(records) < maxRecords && size < maxBytes; from++ {
		next := &r.ring[from%recentRecords]
		if next.Seq != from {
			break
		}
		if records == nil {
			records = make([]Record, 0, min(uint64(maxRecords), max(1, r.newest+1-from)))
		}
		records = append(records, *next)
		size += len(next.Payload)
	}
	if len(records) > 0 {
		return records, nil
	}
	if r.more == nil {
		r.more = make(chan struct{})
	}
	return nil, r.more
}

// errRecent ends following the log: memory has the next messages.
var errRecent = errors.New("what is new is in memory")

// Follow implements Follower. It follows the log, and reads memory while this process is
// the only one that appends.
func (r *RecentAppends) Follow(ctx context.Context, cfg FollowConfig, yield func(Slice) error) error {
	if cfg.Subject != "" {
		return r.Log.Follow(ctx, cfg, yield)
	}
	cfg.From = max(1, cfg.From)
	cfg.MaxRecords, cfg.MaxBytes = cfg.bounds()
	notBefore := time.Now()
	for {
		trial := trial{of: r, since: notBefore}
		err := r.Log.Follow(ctx, cfg, func(s Slice) error {
			if err := yield(s); err != nil {
				return err
			}
			cfg.From = s.Last + 1
			return trial.judge(&s, time.Now())
		})
		if !errors.Is(err, errRecent) {
			return err
		}
		first := cfg.From
		late, err := r.follow(ctx, &cfg, yield)
		if err != nil || ctx.Err() != nil {
			return err
		}
		if notBefore = time.Now(); late || cfg.From == first {
			notBefore = notBefore.Add(recentPenalty)
		}
	}
}

// trial finds out whether this process is the only one that appends. It watches messages
// for a while and judges some time later, because the server delivers a message before the
// message is acknowledged and kept.
type trial struct {
	of          *RecentAppends
	since       time.Time
	until       time.Time // when all messages from first to last had arrived
	first, last uint64
}

// judge returns errRecent once this process is the only one that appends.
func (t *trial) judge(s *Slice, now time.Time) error {
	switch {
	case now.Before(t.since):
	case t.first == 0:
		t.since, t.first = now, s.First
	case t.until.IsZero():
		if t.last = s.Last; now.Sub(t.since) >= recentTrial {
			t.until = now
		}
	case now.Sub(t.until) >= recentQuiet:
		n := t.last + 1 - t.first
		often := float64(n) >= recentRate*t.until.Sub(t.since).Seconds()
		if often && t.of.holds(max(t.first, t.last-min(t.last, recentRecords/2)), t.last) {
			return errRecent
		}
		*t = trial{of: t.of, since: now}
	}
	return nil
}

// follow yields messages from memory from cfg.From on, and advances cfg.From, until the
// next message does not arrive within recentQuiet. late reports that a newer message
// arrived but not the next one: another process appended the next one, or memory did not
// keep it.
func (r *RecentAppends) follow(ctx context.Context, cfg *FollowConfig, yield func(Slice) error) (late bool, err error) {
	pace := time.NewTimer(0)
	defer pace.Stop()
	for {
		select {
		case <-pace.C:
		case <-ctx.Done():
			return false, nil
		}
		records, more := r.take(cfg.From, cfg.MaxRecords, cfg.MaxBytes)
		if len(records) == 0 {
			if records, late = r.await(ctx, cfg, more); len(records) == 0 {
				return late, nil
			}
		}
		last := records[len(records)-1].Seq
		if err := yield(Slice{First: cfg.From, Last: last, Records: records}); err != nil {
			return false, err
		}
		cfg.From = last + 1
		pace.Reset(recentPace)
	}
}

// await waits for the next message.
func (r *RecentAppends) await(ctx context.Context, cfg *FollowConfig, more <-chan struct{}) (records []Record, late bool) {
	quiet := time.NewTimer(recentQuiet)
	defer quiet.Stop()
	for {
		select {
		case <-more:
		case <-quiet.C:
			return nil, r.isBeyond(cfg.From)
		case <-ctx.Done():
			return nil, false
		}
		if records, more = r.take(cfg.From, cfg.MaxRecords, cfg.MaxBytes); len(records) > 0 {
			return records, false
		}
	}
}

// isBeyond reports whether a message newer than seq was kept.
func (r *RecentAppends) isBeyond(seq uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest > seq
}
