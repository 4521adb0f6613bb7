// Package column converts values of events to the forms of PostgreSQL columns, and back.
package column

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/schema"
)

// UUID is an id as a uuid column stores it.
type UUID = [16]byte

// ParseUUID reads the 36-character lowercase form; ids have no other spelling.
func ParseUUID(s string) (UUID, bool) {
	id, err := uuid.Parse(s)
	return id, err == nil && id.String() == s
}

// UUIDText returns the 36-character form.
func UUIDText(id UUID) string { return uuid.UUID(id).String() }

// Hash returns a scan target that fills h from a bytea of 32 bytes.
func Hash(h *events.Hash) pgtype.BytesScanner { return (*hashScanner)(h) }

type hashScanner events.Hash

func (h *hashScanner) ScanBytes(v []byte) error {
	if len(v) != events.HashSize {
		return fmt.Errorf("column holds %d bytes where a hash has %d", len(v), events.HashSize)
	}
	copy(h[:], v)
	return nil
}

// HashArg returns a hash as a query argument: NULL for nil.
func HashArg(h *events.Hash) []byte {
	if h == nil {
		return nil
	}
	return h[:]
}

// TimeArg returns an optional timestamp as a query argument: NULL for nil.
func TimeArg(ts *events.Timestamp) *time.Time { return optional(ts, events.Timestamp.Time) }

// Time returns the timestamp of a nullable column, nil for NULL.
func Time(t *time.Time) *events.Timestamp { return optional(t, events.At) }

// ViaArg returns what something was done with as a query argument: NULL for nil.
func ViaArg(v *events.Via) *string { return optional(v, events.Via.String) }

func optional[From, To any](v *From, to func(From) To) *To {
	if v == nil {
		return nil
	}
	return new(to(*v))
}

// Via is the inverse of ViaArg.
func Via(text *string) *events.Via {
	if text == nil {
		return nil
	}
	v, ok := events.ParseVia(*text)
	if !ok {
		return nil
	}
	return &v
}

// Bytes returns b for a column that is never NULL: pgx writes a nil slice as NULL, but an
// event without the value means zero bytes.
func Bytes(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// One returns the row of a query for a single row. Error texts begin with the argument what.
func One[T any](row pgx.Row, what string, scan func(pgx.Row) (T, error)) (found T, ok bool, err error) {
	found, err = scan(row)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return found, false, nil
	case err != nil:
		return found, false, fmt.Errorf("%s: %w", what, err)
	}
	return found, true, nil
}

// ByID returns the row of a query whose first argument is an id. A text that is not an id
// has no row.
func ByID[T any](ctx context.Context, q schema.Querier, what string, scan func(pgx.Row) (T, error), sql, id string, args ...any) (none T, ok bool, err error) {
	key, ok := ParseUUID(id)
	if !ok {
		return none, false, nil
	}
	return One(q.QueryRow(ctx, sql, append([]any{key[:]}, args...)...), what, scan)
}

// All returns the rows of a query. Error texts begin with the argument what.
func All[T any](ctx context.Context, q schema.Querier, what string, scan func(pgx.Row) (T, error), sql string, args ...any) ([]T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err == nil {
		var all []T
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (T, error) { return scan(row) })
		if err == nil {
			return all, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", what, err)
}

func Value[T any](row pgx.Row) (v T, err error) {
	err = row.Scan(&v)
	return v, err
}
