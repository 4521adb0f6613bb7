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
// Apply receives every message of the log exactly once and in order, however the log is
// cut into slices. Two slices must leave the same rows as one slice that holds both. Each
// row must belong to one owner only: deployments are divided by owner. Apply only queues
// its writes. The projector commits the writes of all projections and the checkpoint in one
// transaction. An error stops the projector visibly; the projector skips no message.
type Projection interface {
	// Name names the projection in logs and errors.
	Name() string
	// Tables lists the tables that only this projection writes, so that a rebuild can
	// compare them and an audit can read them.
	Tables() []string
	Apply(ctx context.Context, w *Writer, s Slice) error
}

// Record is one message of the log, decoded.
type Record struct {
	Seq    uint64
	Family events.Family
	Owner  events.Owner
	Events []events.Event
}

// Slice is a contiguous run of the log, from First to Last. Records holds only the
// messages that are not projected yet.
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

// Writer collects the writes of the projections.
type Writer struct {
	querier schema.Querier
	steps   []Step
}

// Step is one write: a statement, or rows to copy in.
type Step struct {
	SQL  string
	Args []any

	// If Table is set, the step copies rows; see Copy.
	Table   string
	Columns []string
	Rows    pgx.CopyFromSource
}

// NewWriter returns an empty writer that reads through q.
func NewWriter(q schema.Querier) *Writer { return &Writer{querier: q} }

// Exec queues a statement. Statements run in the order of the calls, after Apply has
// returned.
func (w *Writer) Exec(sql string, args ...any) {
	w.steps = append(w.steps, Step{SQL: sql, Args: args})
}

// ExecRows queues a statement whose arguments are the columns of rows, each as an array.
func (w *Writer) ExecRows(sql string, rows [][]any) {
	columns := make([]any, len(rows[0]))
	for c := range columns {
		column := make([]any, len(rows))
		for r := range rows {
			column[r] = rows[r][c]
		}
		columns[c] = column
	}
	w.Exec(sql, columns...)
}

// ExecByID queues a statement whose first argument is an id of the event.
func (w *Writer) ExecByID(r *Record, e *events.Event, id, sql string, args ...any) error {
	key, ok := column.ParseUUID(id)
	if !ok {
		return Unexpected(r, e, fmt.Sprintf("%q is not a UUID", id))
	}
	w.Exec(sql, append([]any{key}, args...)...)
	return nil
}

// Copy queues rows for PostgreSQL's COPY. COPY is faster than a statement from a few
// hundred rows on, but needs extra round trips. The rows are read after Apply has
// returned.
func (w *Writer) Copy(table string, columns []string, rows pgx.CopyFromSource) {
	w.steps = append(w.steps, Step{Table: table, Columns: columns, Rows: rows})
}

// Querier reads rows that earlier slices wrote. It sees no row of this slice. The rows of
// the slice's owners can't change before the slice is written: this projector is the only
// one for these owners, and if it is not, the checkpoint's fence fails the slice.
func (w *Writer) Querier() schema.Querier { return w.querier }

// Steps returns the queued writes, in order.
func (w *Writer) Steps() []Step { return w.steps }

// Unexpected returns the error for an event that a projection can't process.
func Unexpected(r *Record, e *events.Event, why string) error {
	return fmt.Errorf("sequence %d, %s of %s: %s", r.Seq, e.Type(), e.Owner, why)
}

// Fold returns a projection that writes to the tables and applies one event after the
// other. Use it where no event's effect depends on the other events of a slice.
func Fold(name string, tables []string, apply func(w *Writer, r *Record, e *events.Event) error) Projection {
	return folded{name, tables, apply}
}

type folded struct {
	name   string
	tables []string
	apply  func(w *Writer, r *Record, e *events.Event) error
}

func (f folded) Name() string     { return f.name }
func (f folded) Tables() []string { return f.tables }

func (f folded) Apply(_ context.Context, w *Writer, s Slice) error {
	for r, e := range s.Events() {
		if err := f.apply(w, r, e); err != nil {
			return err
		}
	}
	return nil
}
