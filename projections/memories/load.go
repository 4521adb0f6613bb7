package memories

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/canonical"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/internal/copyform"
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
	// COPY takes no arguments. An owner is base58 and cannot hold a quote; it is
	// escaped all the same.
	query := fmt.Sprintf(`COPY (SELECT id, leaf_index, leaf_hash, metadata, sealed, created_at, seq FROM memories
		WHERE owner = '%s' AND leaf_index >= %d AND leaf_index < %d ORDER BY leaf_index) TO STDOUT (FORMAT binary)`,
		strings.ReplaceAll(string(owner), "'", "''"), from, min(to, math.MaxInt64))
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("load memories: %w", err)
	}
	defer conn.Release()
	r := copyReader{owner: owner, rows: make([]Memory, 0, min(to-from, firstRows))}
	if _, err := conn.Conn().PgConn().CopyTo(ctx, &r, query); err != nil {
		return nil, fmt.Errorf("load memories: %w", err)
	}
	if !r.ended {
		return nil, fmt.Errorf("load memories: %w", copyform.ErrFormat)
	}
	return r.rows, nil
}

const (
	copyColumns = 7
	arenaBytes  = 256 << 10
	firstRows   = 4096 // room for this many is made beforehand
)

// copyReader takes in COPY's binary form in pieces of any length.
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
			err = copyform.ErrFormat
		case r.ended:
		case !r.begun:
			n, err = copyform.Header(rest)
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

// readTuple returns the tuple's length, 0 where it is not all there yet.
func (r *copyReader) readTuple(b []byte) (int, error) {
	var fields [copyColumns][]byte
	at, end, err := copyform.Tuple(b, fields[:])
	if r.ended = end; at == 0 || end || err != nil {
		return at, err
	}
	id, index, hash, metadata, sealed, created, seq := fields[0], fields[1], fields[2], fields[3], fields[4], fields[5], fields[6]
	if len(id) != 16 || len(index) != 8 || len(hash) != events.HashSize || metadata == nil || sealed == nil || len(created) != 8 || len(seq) != 8 {
		return 0, copyform.ErrFormat
	}
	r.rows = append(r.rows, Memory{
		ID: column.UUIDText([16]byte(id)), Owner: r.owner,
		LeafIndex: binary.BigEndian.Uint64(index), LeafHash: events.Hash(hash),
		Metadata: canonical.Trusted(metadata), Sealed: sealed,
		CreatedAt: events.At(time.UnixMicro(copyform.ToUnix(int64(binary.BigEndian.Uint64(created))))),
		Seq:       binary.BigEndian.Uint64(seq),
	})
	return at, nil
}
