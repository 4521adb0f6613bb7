package audit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
)

// copyMemories calls yield with every row of the memories, or with an owner's, in
// the order of the tree: one COPY in binary form (PostgreSQL manual, "COPY", Binary
// Format), of which the rows are read where they arrived. They are worth nothing
// when yield returns.
func copyMemories(ctx context.Context, conn *pgx.Conn, owner events.Owner, yield func(name []byte, m *memoryRow) error) error {
	where := ""
	if owner != "" {
		// COPY takes no arguments.
		where = fmt.Sprintf(` WHERE owner = '%s'`, strings.ReplaceAll(string(owner), "'", "''"))
	}
	r := copiedRows{yield: yield}
	if _, err := conn.PgConn().CopyTo(ctx, &r, `COPY (SELECT owner, `+memoryColumns+` FROM memories`+where+` ORDER BY owner, leaf_index) TO STDOUT (FORMAT binary)`); err != nil {
		return err
	}
	if !r.ended {
		return errCopyFormat
	}
	return nil
}

var errCopyFormat = errors.New("not what COPY's binary form looks like")

const (
	copySignature = "PGCOPY\n\xff\r\n\x00"
	copyColumns   = 9
)

// copiedRows takes in COPY's binary form in pieces of any length; PostgreSQL sends
// a row in each.
type copiedRows struct {
	yield        func([]byte, *memoryRow) error
	rest         []byte // of the pieces before: a part of a row
	row          memoryRow
	begun, ended bool
}

// Write implements io.Writer.
func (r *copiedRows) Write(piece []byte) (int, error) {
	data := piece
	if len(r.rest) > 0 {
		r.rest = append(r.rest, piece...)
		data = r.rest
	}
	for len(data) > 0 {
		var n int
		var err error
		switch {
		case r.ended:
			err = errCopyFormat
		case !r.begun:
			n, err = r.header(data)
		default:
			n, err = r.tuple(data)
		}
		if err != nil {
			return 0, err
		}
		if n == 0 {
			break // it is not all there
		}
		data = data[n:]
	}
	r.rest = append(r.rest[:0], data...)
	return len(piece), nil
}

// header returns the header's length, 0 where it is not all there yet.
func (r *copiedRows) header(b []byte) (int, error) {
	const fixed = len(copySignature) + 8 // flags and the length of the extension
	if len(b) < fixed {
		return 0, nil
	}
	extension := binary.BigEndian.Uint32(b[len(copySignature)+4:])
	if string(b[:len(copySignature)]) != copySignature || extension > math.MaxInt16 {
		return 0, errCopyFormat
	}
	n := fixed + int(extension)
	if len(b) < n {
		return 0, nil
	}
	r.begun = true
	return n, nil
}

// tuple returns the tuple's length, 0 where it is not all there yet.
func (r *copiedRows) tuple(b []byte) (int, error) {
	if len(b) < 2 {
		return 0, nil
	}
	switch columns := int16(binary.BigEndian.Uint16(b)); columns {
	case -1:
		r.ended = true
		return 2, nil
	case copyColumns:
	default:
		return 0, errCopyFormat
	}
	var fields [copyColumns][]byte // nil for NULL
	at := 2
	for i := range fields {
		if len(b) < at+4 {
			return 0, nil
		}
		length := int32(binary.BigEndian.Uint32(b[at:]))
		at += 4
		switch {
		case length == -1:
			continue
		case length < 0:
			return 0, errCopyFormat
		case len(b)-at < int(length):
			return 0, nil
		}
		fields[i] = b[at : at+int(length) : at+int(length)]
		at += int(length)
	}
	index, created, seq := fields[1], fields[6], fields[8]
	if len(index) != 8 || len(created) != 8 || len(seq) != 8 {
		return 0, errCopyFormat
	}
	number := func(field []byte) int64 { return int64(binary.BigEndian.Uint64(field)) }
	r.row = memoryRow{leafIndex: number(index), id: fields[2], leafHash: fields[3], metadata: fields[4], sealed: fields[5],
		created: number(created) + postgresEpoch, idempotency: fields[7], seq: number(seq)}
	return at, r.yield(fields[0], &r.row)
}

// postgresEpoch is what timestamps count from, in microseconds since 1970.
var postgresEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
