package projector

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Projection is one read model: a fold of the log into tables.
//
// Apply is given every message of the log exactly once, in order, however the
// log is cut into slices: the rows after two slices must be those after the
// one that holds both. Where several projectors share the owners by partition
// that holds for each owner's messages, and no order between owners is kept: a
// row must be of one owner alone. It only says what is to be written; the projector
// writes what all projections said, and the checkpoint, in one transaction. An
// error stops the projector, loudly; there is no skipping.
type Projection interface {
	// Name names the projection in logs and errors.
	Name() string
	// Tables lists the tables that it alone writes, so that a rebuild can
	// compare them and an audit can read them.
	Tables() []string
	Apply(ctx context.Context, w *Writer, s Slice) error
}

// Beginner is a projection that remembers, from slice to slice, what it would
// have to read otherwise. Begin returns one that remembers nothing, for a run of
// slices each of which follows the one before and is written before the next is
// applied. After an error another begins.
type Beginner interface {
	Projection
	Begin() Projection
}

// Begin returns the projections as a run of slices begins with them.
func Begin(projections []Projection) []Projection {
	begun := make([]Projection, len(projections))
	for i, p := range projections {
		begun[i] = p
		if b, ok := p.(Beginner); ok {
			begun[i] = b.Begin()
		}
	}
	return begun
}

// Record is one message of the log, decoded.
type Record struct {
	Seq    uint64
	Family events.Family
	Owner  events.Owner
	Stored time.Time // when the log stored it
	Events []events.Event
}

// Slice is a contiguous run of the log, from First to Last: those of its messages
// that are of the projector's partitions and not projected yet.
type Slice struct {
	First, Last uint64
	Stored      time.Time // when the log stored the message at Last
	Records     []Record
}

// Events yields every event of the slice in order, with its record.
func (s Slice) Events() iter.Seq2[*Record, *events.Event] {
	return func(yield func(*Record, *events.Event) bool) {
		for i := range s.Records {
			record := &s.Records[i]
			for j := range record.Events {
				if !yield(record, &record.Events[j]) {
					return
				}
			}
		}
	}
}

// Writer collects what the projections want written.
type Writer struct {
	querier schema.Querier
	steps   []Step
}

// Step is one thing to write: a statement, or rows to copy in.
type Step struct {
	SQL  string
	Args []any

	// Where Table is set the step copies rows; see Copy.
	Table   string
	Columns []string
	Rows    pgx.CopyFromSource
}

// NewWriter returns an empty writer that reads through q.
func NewWriter(q schema.Querier) *Writer { return &Writer{querier: q} }

// Exec queues a statement. Statements run in the order of the calls, after
// Apply returned.
func (w *Writer) Exec(sql string, args ...any) {
	w.steps = append(w.steps, Step{SQL: sql, Args: args})
}

// Copy queues rows for PostgreSQL's COPY, which is faster than a statement from some
// hundred rows on and costs round trips of its own. The rows are read after Apply
// returned.
func (w *Writer) Copy(table string, columns []string, rows pgx.CopyFromSource) {
	w.steps = append(w.steps, Step{Table: table, Columns: columns, Rows: rows})
}

// Querier reads what earlier slices wrote. It sees nothing of this slice. What
// it reads of the slice's owners can't change before the slice is written: this
// is their only projector, and the checkpoint's fence fails the slice if it is
// not.
func (w *Writer) Querier() schema.Querier { return w.querier }

// Steps returns what was queued, in order.
func (w *Writer) Steps() []Step { return w.steps }

// Unexpected is the error of a projection that was given an event it can make
// no sense of.
func Unexpected(r *Record, e *events.Event, why string) error {
	return fmt.Errorf("sequence %d, %s of %s: %s", r.Seq, e.Type(), e.Owner, why)
}

// ID reads an id of an event.
func ID(r *Record, e *events.Event, text string) (column.UUID, error) {
	id, ok := column.ParseUUID(text)
	if !ok {
		return id, Unexpected(r, e, fmt.Sprintf("%q is not a UUID", text))
	}
	return id, nil
}
