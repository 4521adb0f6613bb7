package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
)

// Columns of the memories table, in the order in which they are read.
const (
	memoryOwner = iota
	memoryLeafIndex
	memoryID
	memoryLeafHash
	memoryMetadata
	memorySealed
	memoryCreatedAt
	memoryIdempotency
	memorySeq
	memoryVia
	memorySalt
	memorySealing
	memoryImportedID
	memoryImportedAt
	memoryImportedVia
	memoryColumns
)

var memoryNames = [memoryColumns]string{"owner", "leaf_index", "id", "leaf_hash", "metadata", "sealed", "created_at", "idempotency_key_hash", "seq", "via", "salt", "sealing", "imported_id", "imported_at", "imported_via"}

// memoryRow is a row of the memories table: values in PostgreSQL's binary form, nil for
// NULL.
type memoryRow [memoryColumns][]byte

func (m *memoryRow) number(column int) int64 { return int64(binary.BigEndian.Uint64(m[column])) }

// order compares two rows by their places in the log.
func (m *memoryRow) order(o *memoryRow) int {
	return cmp.Or(cmp.Compare(m.number(memorySeq), o.number(memorySeq)),
		cmp.Compare(m.number(memoryLeafIndex), o.number(memoryLeafIndex)),
		bytes.Compare(m[memoryOwner], o[memoryOwner]))
}

// memoryOf returns the row that a projector must make of an event.
func memoryOf(e *events.Event, data *events.MemoryWritten, seq uint64) *memoryRow {
	eight := func(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
	when := func(at events.Timestamp) []byte { return eight(at.Time().UnixMicro() - postgresEpoch) }
	m := &memoryRow{[]byte(e.Owner), eight(int64(data.LeafIndex)), nil, data.LeafHash[:], data.Metadata,
		data.Sealed, when(e.Time), nil, eight(int64(seq)), nil, []byte(data.Salt),
		binary.BigEndian.AppendUint16(nil, uint16(data.Sealing)), nil, nil, nil}
	if id, ok := column.ParseUUID(data.MemoryID); ok { // otherwise NULL, which no row has
		m[memoryID] = id[:]
	}
	if data.IdempotencyKeyHash != nil {
		m[memoryIdempotency] = data.IdempotencyKeyHash[:]
	}
	if data.Via != nil {
		m[memoryVia] = []byte(data.Via.String())
	}
	if before := data.Imported; before != nil {
		if id, ok := column.ParseUUID(before.ID); ok {
			m[memoryImportedID] = id[:]
		}
		m[memoryImportedAt] = when(before.CreatedAt)
		if before.Via != nil {
			m[memoryImportedVia] = []byte(before.Via.String())
		}
	}
	return m
}

// postgresEpoch is the epoch of PostgreSQL timestamps, in microseconds since 1970.
var postgresEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// memoryRows compares the memories table with the log while the log is read: it reads
// the rows in log order, one row ahead. PostgreSQL sorts the rows; a projector wrote
// them in nearly that order.
type memoryRows struct {
	report *report
	rows   pgx.Rows
	ahead  *memoryRow // nil at the end; valid until the next row is read
	row    memoryRow
	count  int
}

func openMemories(ctx context.Context, conn *pgx.Conn, r *report, where string, args []any) (*memoryRows, error) {
	rows, err := conn.Query(ctx, `SELECT `+strings.Join(memoryNames[:], ", ")+` FROM memories`+where+` ORDER BY seq, leaf_index, owner`, append([]any{pgx.QueryResultFormats{pgx.BinaryFormatCode}}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("read memories: %w", err)
	}
	m := &memoryRows{report: r, rows: rows}
	return m, m.next()
}

// next moves to the next row.
func (r *memoryRows) next() error {
	r.ahead = nil
	if r.rows.Next() {
		r.row, r.ahead = memoryRow(r.rows.RawValues()), &r.row
		r.count++
	}
	if err := r.rows.Err(); err != nil {
		return fmt.Errorf("read memories: %w", err)
	}
	return nil
}

// compare compares the next memory of the log with its row.
func (r *memoryRows) compare(want *memoryRow) error {
	if err := r.skip(want); err != nil {
		return err
	}
	if r.ahead == nil || r.ahead.order(want) > 0 {
		r.wrong(want, "", "the row is missing")
		return nil
	}
	for i, w := range want {
		if is := r.ahead[i]; !bytes.Equal(w, is) || (w == nil) != (is == nil) {
			r.wrong(want, memoryNames[i], differs(shownMemory(i, w), shownMemory(i, is)))
		}
	}
	return r.next()
}

// skip reports the rows before want as having no event; if want is nil, it reports all
// remaining rows.
func (r *memoryRows) skip(want *memoryRow) error {
	for r.ahead != nil && (want == nil || r.ahead.order(want) < 0) {
		r.wrong(r.ahead, "", "the row has no event in the log")
		if err := r.next(); err != nil {
			return err
		}
	}
	return nil
}

func (r *memoryRows) wrong(m *memoryRow, column, detail string) {
	index := m.number(memoryLeafIndex)
	f := Finding{Check: CheckReadRow, Owner: events.Owner(m[memoryOwner]), Table: "memories", Row: fmt.Sprint(index), Column: column, Detail: detail}
	if index >= 0 {
		f.LeafIndex = at(uint64(index))
	}
	r.report.add(f)
}

// shownMemory formats a column's value for people.
func shownMemory(column int, value []byte) string {
	switch {
	case value == nil:
		return "NULL"
	case column == memoryOwner || column == memoryMetadata:
		return string(value)
	case (column == memoryCreatedAt || column == memoryImportedAt) && len(value) == 8:
		return stamp(time.UnixMicro(postgresEpoch + int64(binary.BigEndian.Uint64(value))))
	}
	return hex.EncodeToString(value)
}
