package batches

import (
	"context"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projector"
)

// Projection folds the life of batches.
type Projection struct{}

var _ projector.Projection = Projection{}

// Name implements projector.Projection.
func (Projection) Name() string { return "batches" }

// Tables implements projector.Projection.
func (Projection) Tables() []string { return []string{"batches", "batch_attempts"} }

// change is what a slice says of one batch: the last of each kind of event,
// and everything up to the first confirmation only.
type change struct {
	id        column.UUID
	owner     string
	seq       int64
	state     State
	fromSize  *int64
	size      *int64
	root      []byte
	cutAt     *time.Time
	submitted *submission
	confirmed *confirmation
	failedAt  *time.Time
	failure   []byte
}

type submission struct {
	signature, blockhash string
	lastValid            int64
	transaction          []byte
	at                   time.Time
}

type confirmation struct {
	signature                   string
	slot                        int64
	cluster, programID, account string
	at                          time.Time
}

// attempt is what a slice says of one signed transaction.
type attempt struct {
	id        column.UUID
	signature string
	owner     string
	seq       int64
	submitted *submission
	failedAt  *time.Time
	failure   []byte
}

type attemptKey struct {
	id        column.UUID
	signature string
}

// folded is a slice by batch and by attempt, in order of first appearance.
type folded struct {
	batches  []*change
	attempts []*attempt

	byID  map[column.UUID]*change
	byKey map[attemptKey]*attempt
}

// Apply implements projector.Projection.
func (Projection) Apply(_ context.Context, w *projector.Writer, s projector.Slice) error {
	f := folded{byID: make(map[column.UUID]*change), byKey: make(map[attemptKey]*attempt)}
	for r, e := range s.Events() {
		if err := f.add(r, e); err != nil {
			return err
		}
	}
	if len(f.batches) > 0 {
		writeBatches(w, f.batches)
	}
	if len(f.attempts) > 0 {
		writeAttempts(w, f.attempts)
	}
	return nil
}

func (f *folded) add(r *projector.Record, e *events.Event) error {
	var batchID string
	switch data := e.Data.(type) {
	case *events.BatchCut:
		batchID = data.BatchID
	case *events.BatchSubmitted:
		batchID = data.BatchID
	case *events.BatchConfirmed:
		batchID = data.BatchID
	case *events.BatchFailed:
		batchID = data.BatchID
	default:
		return nil
	}
	id, ok := column.ParseUUID(batchID)
	if !ok {
		return projector.Unexpected(r, e, "the batch id is not a UUID")
	}
	f.addAttempt(id, r, e)
	c := f.byID[id]
	if c == nil {
		c = &change{id: id, owner: string(e.Owner)}
		f.byID[id] = c
		f.batches = append(f.batches, c)
	}
	if c.state != Confirmed {
		c.add(r, e)
	}
	return nil
}

func (c *change) add(r *projector.Record, e *events.Event) {
	at := e.Time.Time()
	c.seq = int64(r.Seq)
	switch data := e.Data.(type) {
	case *events.BatchCut:
		c.state, c.cutAt = Cut, &at
		c.fromSize = signed(data.FromSize)
		c.size, c.root = signed(data.Size), data.Root[:]
	case *events.BatchSubmitted:
		c.state = Submitted
		c.size, c.root = signed(data.Size), data.Root[:]
		c.submitted = submissionOf(data, at)
	case *events.BatchConfirmed:
		c.state = Confirmed
		c.size, c.root = signed(data.Size), data.Root[:]
		c.confirmed = &confirmation{data.Signature, int64(data.Slot), data.Cluster, data.ProgramID, data.Account, at}
	case *events.BatchFailed:
		c.state, c.failedAt, c.failure = Failed, &at, []byte(data.Reason)
	}
}

func (f *folded) addAttempt(id column.UUID, r *projector.Record, e *events.Event) {
	at := e.Time.Time()
	switch data := e.Data.(type) {
	case *events.BatchSubmitted:
		if a := f.attempt(id, data.Signature, e); a.submitted == nil {
			a.submitted, a.seq = submissionOf(data, at), int64(r.Seq)
		}
	case *events.BatchFailed:
		if data.Signature != "" {
			a := f.attempt(id, data.Signature, e)
			a.failedAt, a.failure = &at, []byte(data.Reason)
		}
	}
}

func (f *folded) attempt(id column.UUID, signature string, e *events.Event) *attempt {
	key := attemptKey{id, signature}
	a := f.byKey[key]
	if a == nil {
		a = &attempt{id: id, signature: signature, owner: string(e.Owner)}
		f.byKey[key] = a
		f.attempts = append(f.attempts, a)
	}
	return a
}

func submissionOf(data *events.BatchSubmitted, at time.Time) *submission {
	return &submission{data.Signature, data.Blockhash, int64(data.LastValidBlockHeight), column.Bytes(data.Transaction), at}
}

func signed(n uint64) *int64 {
	v := int64(n)
	return &v
}
