package memories

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/canonical"
	"github.com/memory-ledger/ledger/projections/internal/column"
)

// Load returns the owner's memories from one leaf index (inclusive) to another
// (exclusive), in leaf order, for those who want many at once: one COPY in
// binary form, into a few large pieces of memory which the rows share. Keeping
// one row keeps its piece. Of the batches that cover them the rows say nothing.
//
// Fewer come back where the log ends before that.
func Load(ctx context.Context, pool *pgxpool.Pool, owner events.Owner, from, to uint64) ([]Memory, error) {
	if from >= to || from > math.MaxInt64 {
		return nil, nil
	}
	which := fmt.Sprintf(`leaf_index >= %d AND leaf_index < %d`, from, min(to, math.MaxInt64))
	return copyOut(ctx, pool, owner, "sealed", which, min(to-from, firstRows))
}

// copyOut reads the owner's memories of which a condition is true.
func copyOut(ctx context.Context, pool *pgxpool.Pool, owner events.Owner, sealed, which string, room uint64) ([]Memory, error) {
	// COPY takes no arguments. An owner is base58 and cannot hold a quote, but
	// whoever reads this need not know.
	query := fmt.Sprintf(`COPY (SELECT id, leaf_index, leaf_hash, metadata, %s, created_at, seq FROM memories
		WHERE owner = '%s' AND %s ORDER BY leaf_index) TO STDOUT (FORMAT binary)`,
		sealed, strings.ReplaceAll(string(owner), "'", "''"), which)
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("load memories: %w", err)
	}
	defer conn.Release()
	r := copyReader{owner: owner, rows: make([]Memory, 0, room)}
	if _, err := conn.Conn().PgConn().CopyTo(ctx, &r, query); err != nil {
		return nil, fmt.Errorf("load memories: %w", err)
	}
	if !r.ended {
		return nil, fmt.Errorf("load memories: %w", errCopyFormat)
	}
	return r.rows, nil
}

var errCopyFormat = errors.New("not what COPY's binary form looks like")

const (
	copySignature = "PGCOPY\n\xff\r\n\x00"
	copyColumns   = 7
	arenaBytes    = 256 << 10
	firstRows     = 4096 // room for this many is made beforehand
)

// copyReader takes in COPY's binary form (PostgreSQL manual, "COPY", Binary
// Format) in pieces of any length.
type copyReader struct {
	owner events.Owner
	rows  []Memory

	// arena holds what arrived. What rows point into is never written again:
	// a full arena is left to them, and the rest moves on to a new one.
	arena []byte
	at    int // what is before it has been read
	begun bool
	ended bool
}

// Write implements io.Writer.
func (r *copyReader) Write(p []byte) (int, error) {
	if len(r.arena)+len(p) > cap(r.arena) {
		rest := r.arena[r.at:]
		r.arena = append(make([]byte, 0, max(arenaBytes, len(rest)+len(p))), rest...)
		r.at = 0
	}
	r.arena = append(r.arena, p...)
	for {
		rest := r.arena[r.at:]
		var n int
		var err error
		switch {
		case r.ended && len(rest) > 0:
			err = errCopyFormat
		case r.ended:
		case !r.begun:
			n, err = readCopyHeader(rest)
			r.begun = n > 0
		default:
			n, err = r.readTuple(rest)
		}
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return len(p), nil
		}
		r.at += n
	}
}

// readCopyHeader returns the header's length, 0 where it is not all there yet.
func readCopyHeader(b []byte) (int, error) {
	const fixed = len(copySignature) + 8 // flags and the length of the extension
	if len(b) < fixed {
		return 0, nil
	}
	if string(b[:len(copySignature)]) != copySignature {
		return 0, errCopyFormat
	}
	extension := binary.BigEndian.Uint32(b[len(copySignature)+4:])
	if extension > math.MaxInt16 {
		return 0, errCopyFormat
	}
	if n := fixed + int(extension); len(b) >= n {
		return n, nil
	}
	return 0, nil
}

// readTuple returns the tuple's length, 0 where it is not all there yet.
func (r *copyReader) readTuple(b []byte) (int, error) {
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
	var fields [copyColumns][]byte
	at := 2
	for i := range fields {
		if len(b) < at+4 {
			return 0, nil
		}
		length := int32(binary.BigEndian.Uint32(b[at:]))
		at += 4
		if length < 0 { // NULL; none of the columns may be
			return 0, errCopyFormat
		}
		if len(b)-at < int(length) {
			return 0, nil
		}
		fields[i] = b[at : at+int(length) : at+int(length)]
		at += int(length)
	}
	id, index, hash, metadata, sealed, created, seq := fields[0], fields[1], fields[2], fields[3], fields[4], fields[5], fields[6]
	if len(id) != 16 || len(index) != 8 || len(hash) != events.HashSize || len(created) != 8 || len(seq) != 8 {
		return 0, errCopyFormat
	}
	r.rows = append(r.rows, Memory{
		ID: column.UUIDText([16]byte(id)), Owner: r.owner,
		LeafIndex: binary.BigEndian.Uint64(index), LeafHash: events.Hash(hash),
		Metadata: canonical.Trusted(metadata), Sealed: sealed,
		CreatedAt: events.At(postgresTime(int64(binary.BigEndian.Uint64(created)))),
		Seq:       binary.BigEndian.Uint64(seq),
	})
	return at, nil
}

// postgresEpoch is what timestamps count microseconds from.
var postgresEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func postgresTime(micros int64) time.Time {
	return time.UnixMicro(postgresEpoch.UnixMicro() + micros)
}
