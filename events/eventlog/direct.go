package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

const (
	// batchRecords and batchBytes bound one answer of the server.
	batchRecords = 1000
	batchBytes   = 4 << 20
	// batchTimeout is how long a batch may take before it is asked for again.
	batchTimeout = 10 * time.Second
	// directPoll is how often a follower at the end of the log looks for more.
	directPoll = 100 * time.Millisecond
)

// Direct is the log for those who may only read. It uses nothing but direct
// gets and stream info: a consumer, which [JetStream.Follow] makes, can't be
// permitted to a stranger, because whoever makes one chooses where it delivers
// to. Live, it looks for news ten times a second, so it is for auditors and
// tools; what serves requests follows by consumer.
type Direct struct{ *JetStream }

var _ Log = Direct{}

// Direct returns the log as auditors read it.
func (l *JetStream) Direct() Direct { return Direct{l} }

// ReadConfig says what to read: a part of the log that is complete already.
type ReadConfig struct {
	From     uint64 // first sequence wanted; 0 means 1
	To       uint64 // last sequence wanted; the caller knows that the log holds it
	Subject  string // subject filter; empty means all
	MaxBytes int    // payload bytes after which a slice ends; 0 means 4 MiB
}

// Read calls yield with the log from From to To, slice after slice, and
// returns nil at To. The slice after the one that yield works on is fetched
// meanwhile. Servers that go away and come back are waited for until ctx ends.
//
// Without a filter the slices are contiguous, and one that is not is ErrGap. A
// filtered read believes the server that answers: on a cluster, a replica that
// is behind may lack the newest messages.
func (d Direct) Read(ctx context.Context, cfg ReadConfig, yield func(Slice) error) error {
	cfg.From = max(1, cfg.From)
	if cfg.From > cfg.To {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slices, failed := make(chan Slice, 1), make(chan error, 1)
	go func() {
		defer close(slices)
		failed <- d.fetch(ctx, cfg, slices)
	}()
	for slice := range slices {
		if err := yield(slice); err != nil {
			return err
		}
	}
	return <-failed
}

// fetch sends the slices of a Read.
func (d Direct) fetch(ctx context.Context, cfg ReadConfig, out chan<- Slice) error {
	for next := cfg.From; next <= cfg.To; {
		records, more, err := d.batch(ctx, next, cfg.Subject, int(min(batchRecords, cfg.To-next+1)), cfg.MaxBytes)
		if err != nil || (len(records) == 0 && cfg.Subject == "") {
			// Without a filter the log is known to go on: the server that
			// answered is behind, or there was none.
			if errors.Is(err, ErrGap) {
				return fmt.Errorf("read: %w", err)
			}
			if !pause(ctx, retryPause) {
				return errors.Join(ctx.Err(), err)
			}
			continue
		}
		end := len(records)
		for end > 0 && records[end-1].Seq > cfg.To {
			end--
		}
		slice := Slice{First: next, Last: cfg.To, Records: records[:end]}
		if more && end == len(records) {
			slice.Last = records[end-1].Seq
		}
		if cfg.Subject == "" && end > 0 {
			slice.Last = records[end-1].Seq
		}
		next = slice.Last + 1
		if end == 0 {
			continue
		}
		select {
		case out <- slice:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Follow implements Follower.
func (d Direct) Follow(ctx context.Context, cfg FollowConfig, yield func(Slice) error) error {
	next := max(1, cfg.From)
	head, err := d.Head(ctx)
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	if next > head+1 {
		return fmt.Errorf("follow from %d, log ends at %d: %w", next, head, ErrTruncated)
	}
	filter := ""
	if len(cfg.Subjects) == 1 {
		filter = cfg.Subjects[0]
	}
	limit := cfg.MaxRecords
	if limit <= 0 {
		limit = defaultMaxRecords
	}
	first := next // of the slice that is being gathered
	for {
		records, _, err := d.batch(ctx, next, filter, min(limit, batchRecords), cfg.MaxBytes)
		if errors.Is(err, ErrGap) {
			return fmt.Errorf("follow: %w", err)
		}
		if err != nil || len(records) == 0 {
			if !sleep(ctx, directPoll) {
				return nil
			}
			continue
		}
		next = records[len(records)-1].Seq + 1
		if records = wanted(records, cfg.Subjects); len(records) == 0 {
			continue
		}
		slice := Slice{First: first, Last: records[len(records)-1].Seq, Records: records}
		first = slice.Last + 1
		if err := yield(slice); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// batch asks for messages from a sequence on; more says that the server has
// others after these. An answer that breaks off gives what came.
func (d Direct) batch(ctx context.Context, from uint64, filter string, limit, maxBytes int) (records []Record, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	if maxBytes <= 0 {
		maxBytes = batchBytes
	}
	options := []jetstreamext.GetBatchOpt{jetstreamext.GetBatchSeq(from), jetstreamext.GetBatchMaxBytes(maxBytes)}
	if filter != "" {
		options = append(options, jetstreamext.GetBatchSubject(filter))
	}
	answers, err := jetstreamext.GetBatch(ctx, d.js, StreamName, limit, options...)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	next := from
	for msg, err := range answers {
		if errors.Is(err, jetstreamext.ErrNoMessages) {
			return records, false, nil
		}
		if err != nil {
			if len(records) > 0 {
				return records, true, nil
			}
			return nil, false, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		if msg.Sequence < next || (filter == "" && msg.Sequence != next) {
			return nil, false, fmt.Errorf("%w: expected sequence %d, got %d", ErrGap, next, msg.Sequence)
		}
		next = msg.Sequence + 1
		pending, err := strconv.ParseUint(msg.Header.Get("Nats-Num-Pending"), 10, 64)
		more = err != nil || pending > 0
		records = append(records, Record{
			Seq: msg.Sequence, Subject: msg.Subject, Time: msg.Time,
			CommandID: msg.Header.Get(jetstream.MsgIDHeader), Payload: msg.Data,
		})
	}
	if len(records) == 0 {
		return nil, false, fmt.Errorf("%w: no answer to a batch get", ErrUnavailable)
	}
	return records, more, nil
}

// wanted drops what no filter matches. The server takes one filter only.
func wanted(records []Record, filters []string) []Record {
	if len(filters) < 2 {
		return records
	}
	return slices.DeleteFunc(records, func(r Record) bool {
		return !slices.ContainsFunc(filters, func(f string) bool { return matches(f, r.Subject) })
	})
}

// matches tells whether a subject passes a filter with NATS' wildcards.
func matches(filter, subject string) bool {
	for {
		f, moreFilter, manyFilter := strings.Cut(filter, ".")
		s, moreSubject, manySubject := strings.Cut(subject, ".")
		switch {
		case f == ">":
			return true
		case f != "*" && f != s, manyFilter != manySubject:
			return false
		case !manyFilter:
			return true
		}
		filter, subject = moreFilter, moreSubject
	}
}

// sleep waits for d and reports false where ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
