package audit

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/copyform"
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
		return copyform.ErrFormat
	}
	return nil
}

const copyColumns = 9

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
			err = copyform.ErrFormat
		case !r.begun:
			n, err = copyform.Header(data)
			r.begun = n > 0
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

// tuple returns the tuple's length, 0 where it is not all there yet.
func (r *copiedRows) tuple(b []byte) (int, error) {
	var fields [copyColumns][]byte
	at, end, err := copyform.Tuple(b, fields[:])
	if r.ended = end; at == 0 || end || err != nil {
		return at, err
	}
	index, created, seq := fields[1], fields[6], fields[8]
	if len(index) != 8 || len(created) != 8 || len(seq) != 8 {
		return 0, copyform.ErrFormat
	}
	number := func(field []byte) int64 { return int64(binary.BigEndian.Uint64(field)) }
	r.row = memoryRow{leafIndex: number(index), id: fields[2], leafHash: fields[3], metadata: fields[4], sealed: fields[5],
		created: copyform.ToUnix(number(created)), idempotency: fields[7], seq: number(seq)}
	return at, r.yield(fields[0], &r.row)
}
