package projector

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/projections/internal/copyform"
)

// Row takes in the fields of a row in COPY's binary form, one after the other in
// the order of the columns. What a field is called here is the type of its column;
// PostgreSQL refuses one of another length, and nothing else of the kind.
type Row struct{ buf []byte }

func (r *Row) length(n int) { r.buf = binary.BigEndian.AppendUint32(r.buf, uint32(n)) }

// Text is for a column of type text. PostgreSQL refuses a NUL in it.
func (r *Row) Text(s string) {
	r.length(len(s))
	r.buf = append(r.buf, s...)
}

// Bytes is for bytea; nil is a value without bytes.
func (r *Row) Bytes(b []byte) {
	r.length(len(b))
	r.buf = append(r.buf, b...)
}

// UUID is for uuid.
func (r *Row) UUID(id [16]byte) { r.Bytes(id[:]) }

// Bigint is for bigint.
func (r *Row) Bigint(n int64) {
	r.length(8)
	r.buf = binary.BigEndian.AppendUint64(r.buf, uint64(n))
}

// Timestamptz is for timestamptz, which keeps microseconds.
func (r *Row) Timestamptz(t time.Time) { r.Bigint(copyform.FromUnix(t.UnixMicro())) }

// Null is for a column of any type.
func (r *Row) Null() { r.buf = binary.BigEndian.AppendUint32(r.buf, 0xffffffff) }

// Copy runs a step that copies rows.
func (s *Step) Copy(ctx context.Context, conn *pgx.Conn) error {
	columns := make([]string, len(s.Columns))
	for i, name := range s.Columns {
		columns[i] = pgx.Identifier{name}.Sanitize()
	}
	sql := fmt.Sprintf(`COPY %s (%s) FROM STDIN (FORMAT binary)`, pgx.Identifier{s.Table}.Sanitize(), strings.Join(columns, ", "))
	if _, err := conn.PgConn().CopyFrom(ctx, &copySource{step: s}, sql); err != nil {
		return fmt.Errorf("copy into %s: %w", s.Table, err)
	}
	return nil
}

// copySource hands out a step's rows as they are asked for, so that never more
// than some 64 KiB and a row of them are in memory twice.
type copySource struct {
	step *Step
	row  Row
	at   int // what is before it was handed out
	next int // row
	end  bool
}

// Read implements io.Reader. All but the last fill p: each becomes a message.
func (c *copySource) Read(p []byte) (int, error) {
	c.row.buf = append(c.row.buf[:0], c.row.buf[c.at:]...)
	c.at = 0
	for !c.end && len(c.row.buf) < len(p) {
		switch {
		case c.row.buf == nil:
			c.row.buf = append(make([]byte, 0, len(p)+len(p)/8), copyform.Signature+"\x00\x00\x00\x00\x00\x00\x00\x00"...)
		case c.next == c.step.Count:
			c.row.buf, c.end = binary.BigEndian.AppendUint16(c.row.buf, 0xffff), true
		default:
			c.row.buf = binary.BigEndian.AppendUint16(c.row.buf, uint16(len(c.step.Columns)))
			c.step.Row(&c.row, c.next)
			c.next++
		}
	}
	c.at = copy(p, c.row.buf)
	if c.at == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return c.at, nil
}
