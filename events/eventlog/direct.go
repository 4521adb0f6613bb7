package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// batchRecords and batchBytes bound one answer of the server.
	batchRecords = 1000
	batchBytes   = 4 << 20
	// batchTimeout is how long a batch may take before it is requested again. A server may
	// search long for a filter's first message. Without a filter, each message has to follow
	// sooner: a server that dies sends no more.
	batchTimeout = 10 * time.Second
	// directPoll is how often a follower at the end of the log looks for more.
	directPoll = 100 * time.Millisecond
)

// Direct is the log for clients that may only read. It uses only direct gets and stream
// info. [JetStream.Follow] makes a consumer, which a stranger must not be allowed to do:
// the client that makes a consumer chooses the subject that the consumer delivers to.
// At the end of the log, Direct polls for new messages ten times a second. Projectors and
// anchorers follow through a consumer.
type Direct struct{ *JetStream }

var _ Log = Direct{}

// Direct returns the log as auditors read it.
func (l *JetStream) Direct() Direct { return Direct{l} }

// Read implements PartReader. A filtered read trusts the server that answers:
// on a cluster, a replica that is behind may lack the newest messages.
func (d Direct) Read(ctx context.Context, cfg ReadConfig, yield func(Slice) error) error {
	cfg.From = max(1, cfg.From)
	ctx, cancel := context.WithCancel(ctx)
	slices, failed := make(chan Slice, 1), make(chan error, 1)
	go func() {
		defer close(slices)
		failed <- d.fetch(ctx, cfg, slices)
	}()
	defer func() {
		cancel()
		for range slices {
		}
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
	var reason error // of the last attempt to read from next that ctx did not cut short
	patience := d.batchPatience(cfg.Subject)
	for next := cfg.From; next <= cfg.To; {
		records, more, err := d.batch(ctx, next, cfg.Subject, int(min(batchRecords, cfg.To-next+1)), cfg.MaxBytes, patience)
		if err != nil && cfg.Subject == "" && d.askLeader() && !errors.Is(err, ErrGap) {
			patience = min(2*patience, time.Second) // the server may be slow
			records, more, err = d.nextOfLeader(ctx, next, err)
		}
		missing := err == nil && len(records) == 0
		if missing && cfg.Subject != "" { // perhaps no message passes the filter
			_, missing, err = d.next(ctx, next, cfg.Subject)
		}
		if err != nil || missing {
			// The log is known to continue: the server that answered is behind, or
			// no server answered.
			if errors.Is(err, ErrGap) {
				return fmt.Errorf("read: %w", err)
			}
			if reason == nil || ctx.Err() == nil {
				reason = err
			}
			if !d.again(ctx) {
				return readEnds(ctx, next, reason)
			}
			continue
		}
		if reason = nil; len(records) > 1 {
			patience = d.batchPatience(cfg.Subject)
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

// nextOfLeader reads one message from the leader: the replica that was asked for many can
// perhaps not be reached.
func (d Direct) nextOfLeader(ctx context.Context, seq uint64, was error) (records []Record, more bool, err error) {
	record, found, err := d.At(ctx, seq)
	if err != nil || !found {
		return nil, false, errors.Join(was, err)
	}
	return []Record{record}, true, nil
}

// Follow implements Follower.
func (d Direct) Follow(ctx context.Context, cfg FollowConfig, yield func(Slice) error) error {
	next, head, err := d.begin(ctx, cfg)
	if err != nil {
		return err
	}
	for {
		if err == nil {
			if next, err = d.fill(ctx, cfg, next, head, yield); err != nil {
				return ended(ctx, err)
			}
		}
		if !Pause(ctx, directPoll) {
			return nil
		}
		head, err = HeadHolding(ctx, d.Head, next-1, d.Lag())
		switch {
		case err != nil && d.nc.IsClosed():
			return ended(ctx, fmt.Errorf("follow: %w", err))
		case err == nil && head < next-1:
			return ended(ctx, fmt.Errorf("follow from %d, log ends at %d: %w", next, head, ErrTruncated))
		}
	}
}

// fill yields the messages from next up to a sequence that the log is known to hold. It
// returns the sequence to continue at.
func (d Direct) fill(ctx context.Context, cfg FollowConfig, next, to uint64, yield func(Slice) error) (uint64, error) {
	err := d.Read(ctx, ReadConfig{From: next, To: to, Subject: cfg.Subject, MaxBytes: cfg.MaxBytes}, func(slice Slice) error {
		for _, part := range parts(slice, cfg.MaxRecords) {
			if err := yield(part); err != nil {
				return err
			}
			next = part.Last + 1
		}
		return nil
	})
	if err != nil {
		return next, err
	}
	return max(next, to+1), nil
}

// parts cuts a slice into slices of at most limit records.
func parts(slice Slice, limit int) []Slice {
	if limit <= 0 {
		limit = defaultMaxRecords
	}
	var all []Slice
	for len(slice.Records) > limit {
		last := slice.Records[limit-1].Seq
		all = append(all, Slice{First: slice.First, Last: last, Records: slice.Records[:limit]})
		slice.First, slice.Records = last+1, slice.Records[limit:]
	}
	return append(all, slice)
}

// readEnds returns the error of a read that can no longer wait: its context has ended or
// is about to, or the connection is closed for good. A read that ends early returns this
// error, whatever the cause was.
func readEnds(ctx context.Context, next uint64, err error) error {
	return fmt.Errorf("read ends before sequence %d: %w", next, errors.Join(ErrUnavailable, ctx.Err(), err))
}

// batchPatience returns how long a batch's next message may take. On a cluster the request
// may have gone to a replica that can't be reached.
func (d Direct) batchPatience(filter string) time.Duration {
	switch {
	case filter != "":
		return batchTimeout
	case d.askLeader():
		return lostResend
	}
	return attemptTimeout
}

// batchRequest is the body of a direct get of many messages.
type batchRequest struct {
	Seq           uint64 `json:"seq"`
	NextBySubject string `json:"next_by_subj,omitempty"`
	Batch         int    `json:"batch"`
	MaxBytes      int    `json:"max_bytes"`
}

// batch requests messages from a sequence on. more reports that the server has further
// messages. If the answer breaks off, batch returns the messages received so far. It does
// the same if a message of the answer is lost in transit: a connection that is restored
// loses some.
//
// The answers go to a separate inbox, not to the one that requests share: a server that
// finds two subscriptions for an answer sends the answer twice.
func (d Direct) batch(ctx context.Context, from uint64, filter string, limit, maxBytes int, patience time.Duration) (records []Record, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	if maxBytes <= 0 {
		maxBytes = batchBytes
	}
	request, err := json.Marshal(batchRequest{Seq: from, NextBySubject: filter, Batch: limit, MaxBytes: maxBytes})
	if err != nil {
		return nil, false, err
	}
	answers, err := d.nc.SubscribeSync(d.nc.NewInbox())
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer func() { _ = answers.Unsubscribe() }() // a closed connection has no subscription
	if err := d.nc.PublishRequest("$JS.API.DIRECT.GET."+StreamName, answers.Subject, request); err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	last := uint64(0) // sequence of the last message received
	for next := from; ; {
		record, after, pending, err := nextOfBatch(ctx, answers, patience)
		if (err == nil || errors.Is(err, errBatchEnds)) && after != last {
			err = fmt.Errorf("%w: batch get: %w", ErrUnavailable, errLost)
		}
		switch {
		case errors.Is(err, errBatchEnds):
			return records, more, nil
		case err != nil && len(records) > 0:
			return records, true, nil
		case err != nil:
			return nil, false, err
		case record.Seq < next || (filter == "" && record.Seq != next):
			return nil, false, d.noteGap(gap(next, record.Seq))
		}
		last, next, more = record.Seq, record.Seq+1, pending > 0
		if records == nil {
			records = make([]Record, 0, min(limit, int(min(pending, batchRecords))+1))
		}
		records = append(records, record)
	}
}

// errBatchEnds: the server has sent all requested messages, or all that it has.
var errBatchEnds = errors.New("end of batch")

// nextOfBatch receives one message of a batch, or the end of the batch. after is the
// sequence of the message that the server sent before it, 0 if none. pending is how many
// messages the server has after it.
func nextOfBatch(ctx context.Context, answers *nats.Subscription, patience time.Duration) (record Record, after, pending uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	msg, err := answers.NextMsgWithContext(ctx)
	if err != nil {
		return Record{}, 0, 0, fmt.Errorf("%w: batch get: %w", ErrUnavailable, err)
	}
	ends := msg.Header.Get("Status") == "204"
	if !ends {
		found := false
		if record, found, err = decodeDirect(msg); err != nil {
			return Record{}, 0, 0, err
		}
		if !found {
			return Record{}, 0, 0, errBatchEnds
		}
	}
	after, errAfter := strconv.ParseUint(msg.Header.Get("Nats-Last-Sequence"), 10, 64)
	pending, errPending := strconv.ParseUint(msg.Header.Get("Nats-Num-Pending"), 10, 64)
	if err := errors.Join(errAfter, errPending); err != nil {
		return Record{}, 0, 0, fmt.Errorf("%w: the server knows no batch get: %w", ErrUnavailable, err)
	}
	if ends {
		err = errBatchEnds
	}
	return record, after, pending, err
}
