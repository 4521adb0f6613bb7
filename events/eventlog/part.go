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
	batchRecords = 1000 // in one answer of the server
	// batchTimeout is how long a batch may take before it is requested again. A server may
	// search long for a filter's first message. Without a filter, each message has to follow
	// sooner: a server that dies sends no more.
	batchTimeout = 10 * time.Second
)

// Read implements PartReader, by direct gets.
func (l *JetStream) Read(ctx context.Context, cfg ReadConfig, yield func(Slice) error) error {
	cfg.From = max(1, cfg.From)
	ctx, cancel := context.WithCancel(ctx)
	slices, failed := make(chan Slice, 1), make(chan error, 1)
	go func() {
		defer close(slices)
		failed <- l.fetch(ctx, cfg, slices)
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

func (l *JetStream) fetch(ctx context.Context, cfg ReadConfig, out chan<- Slice) error {
	var reason error // of the last attempt to read from next that ctx did not cut short
	patience := l.batchPatience(cfg.Subject)
	for next := cfg.From; next <= cfg.To; {
		records, more, err := l.batch(ctx, next, cfg.Subject, int(min(batchRecords, cfg.To-next+1)), cfg.MaxBytes, patience)
		if (err != nil || len(records) == 0) && cfg.Subject == "" && l.askLeader() && !errors.Is(err, ErrGap) {
			patience = min(2*patience, time.Second) // the server may be slow
			records, more, err = l.ofLeader(ctx, next, cfg.To, err)
		}
		missing := err == nil && len(records) == 0
		if missing && cfg.Subject != "" { // perhaps no message passes the filter
			_, missing, err = l.next(ctx, next, cfg.Subject)
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
			if !l.again(ctx) {
				return readEnds(ctx, next, reason)
			}
			continue
		}
		if reason = nil; len(records) > 1 {
			patience = l.batchPatience(cfg.Subject)
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

// ofLeader reads some messages from the leader, one by one: the replica that was asked for
// them can perhaps not be reached, or is behind.
func (l *JetStream) ofLeader(ctx context.Context, from, to uint64, was error) (records []Record, more bool, err error) {
	for seq := from; seq <= to && len(records) < 100; seq++ {
		record, found, err := l.At(ctx, seq)
		switch {
		case (err != nil || !found) && len(records) > 0:
			return records, true, nil
		case err != nil || !found:
			return nil, false, errors.Join(was, err)
		}
		records = append(records, record)
	}
	return records, true, nil
}

// readEnds returns the error of a read that can no longer wait: its context has ended or
// is about to, or the connection is closed for good. A read that ends early returns this
// error, whatever the cause was.
func readEnds(ctx context.Context, next uint64, err error) error {
	return fmt.Errorf("read ends before sequence %d: %w", next, errors.Join(ErrUnavailable, ctx.Err(), err))
}

// batchPatience returns how long a batch's next message may take. On a cluster the request
// may have gone to a replica that can't be reached.
func (l *JetStream) batchPatience(filter string) time.Duration {
	switch {
	case filter != "":
		return batchTimeout
	case l.askLeader():
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
func (l *JetStream) batch(ctx context.Context, from uint64, filter string, limit, maxBytes int, patience time.Duration) (records []Record, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	if maxBytes <= 0 {
		maxBytes = 4 << 20
	}
	request, err := json.Marshal(batchRequest{Seq: from, NextBySubject: filter, Batch: limit, MaxBytes: maxBytes})
	if err != nil {
		return nil, false, err
	}
	answers, err := l.nc.SubscribeSync(l.nc.NewInbox())
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer func() { _ = answers.Unsubscribe() }() // a closed connection has no subscription
	if err := l.nc.PublishRequest("$JS.API.DIRECT.GET."+StreamName, answers.Subject, request); err != nil {
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
			return nil, false, l.noteGap(gap(next, record.Seq))
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
