package projector

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// fields is a row as pgx encodes it for COPY.
func fields(t *testing.T, m *pgtype.Map, oids []uint32, values []any) []byte {
	t.Helper()
	row := binary.BigEndian.AppendUint16(nil, uint16(len(values)))
	for i, v := range values {
		field, err := m.Encode(oids[i], pgtype.BinaryFormatCode, v, []byte{})
		if err != nil {
			t.Fatal(err)
		}
		length := uint32(len(field))
		if field == nil {
			length = 0xffffffff
		}
		row = append(binary.BigEndian.AppendUint32(row, length), field...)
	}
	return row
}

// TestRowsAreWhatPgxMakesOfThem: the same bytes, in pieces of any length.
func TestRowsAreWhatPgxMakesOfThem(t *testing.T) {
	t.Parallel()
	oids := []uint32{pgtype.TextOID, pgtype.ByteaOID, pgtype.UUIDOID, pgtype.Int8OID, pgtype.TimestamptzOID, pgtype.ByteaOID}
	var values [][]any
	for i, text := range []string{"", "é\x01", strings.Repeat("long ", 3000), "x"} {
		values = append(values, []any{text, []byte(text), [16]byte{1, 15: byte(i)}, int64(i-1) << 40,
			time.Date(1900+60*i, 2, 29, 23, 59, 59, 123_456_789, time.UTC), []byte(nil)})
	}
	step := Step{Columns: make([]string, len(oids)), Count: len(values), Row: func(row *Row, i int) {
		v := values[i]
		row.Text(v[0].(string))
		row.Bytes(v[1].([]byte))
		row.UUID(v[2].([16]byte))
		row.Bigint(v[3].(int64))
		row.Timestamptz(v[4].(time.Time))
		row.Null()
	}}
	want := []byte("PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	m := pgtype.NewMap()
	for _, v := range values {
		want = append(want, fields(t, m, oids, v)...)
	}
	want = append(want, 0xff, 0xff)
	for _, size := range []int{1, 7, 100, 4000, 1 << 20} {
		var got []byte
		piece, source := make([]byte, size), &copySource{step: &step}
		for {
			n, err := source.Read(piece)
			got = append(got, piece[:n]...)
			if err == io.EOF {
				break
			}
			if err != nil || (n < size && len(got) < len(want)) {
				t.Fatalf("%d of %d bytes after %d, %v", n, size, len(got), err)
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("in pieces of %d: %d bytes, want %d", size, len(got), len(want))
		}
	}
	if got, err := io.ReadAll(&copySource{step: &Step{}}); err != nil || len(got) != 19+2 {
		t.Errorf("of no rows: %x, %v", got, err)
	}
}
