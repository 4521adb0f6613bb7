package memories

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/schema"
)

// At returns the owner's memories of the given leaves, in leaf order, without those that the
// read model does not hold. The leaves must be in ascending order.
func At(ctx context.Context, q schema.Querier, owner events.Owner, leaves []uint64) ([]*Memory, error) {
	n := uint64(len(leaves))
	if n == 0 || leaves[n-1] > math.MaxInt64 {
		return nil, nil
	}
	first, last := leaves[0], leaves[n-1]
	query, args := `SELECT `+columns+` FROM memories m `, []any{string(owner), first, last}
	switch {
	case n == 1: // avoids planning again each time: PostgreSQL assumes
		// ten elements of an array whose length it does not know
		query, args = query+`WHERE m.owner = $1 AND m.leaf_index = $2`, args[:2]
	// This is the number of leaves above which At reads the whole run, if it needs more than
	// a quarter of the run: this is faster.
	case n > 64 && last-first+1 < 4*n:
		query += `WHERE m.owner = $1 AND m.leaf_index >= $2 AND m.leaf_index <= $3 ORDER BY m.leaf_index`
	default:
		// This query forces a plan that looks up each leaf. With "leaf_index = ANY",
		// PostgreSQL can read all rows of the owner to find them in order, if it
		// estimates that the table is small.
		query, args = `SELECT `+columns+` FROM unnest($2::bigint[]) AS wanted (leaf) CROSS JOIN LATERAL (
				SELECT * FROM memories WHERE owner = $1 AND leaf_index = wanted.leaf OFFSET 0) m
			ORDER BY m.leaf_index`, []any{string(owner), leaves}
	}
	found, err := column.All(ctx, q, fmt.Sprintf("memories of %d leaves", n), func(row pgx.Row) (*Memory, error) { return scan(row) }, query, args...)
	return slices.DeleteFunc(found, func(m *Memory) bool {
		_, wanted := slices.BinarySearch(leaves, m.LeafIndex)
		return !wanted
	}), err
}

// Body is the sealed text of a leaf.
type Body struct {
	Leaf    uint64
	ID      [16]byte
	Sealed  []byte // valid until the next body
	Sealing int    // version of the sealing
	Salt    events.Salt
	Created time.Time
	// Metadata is valid until the next body, and only there if it may say when the memory
	// occurred; see [Moment].
	Metadata []byte
}

// Bodies calls yield with the sealed texts of the owner's leaves from (inclusive) to
// (exclusive), in leaf order, as they arrive. If yield returns an error, Bodies stops and
// returns it.
func Bodies(ctx context.Context, q schema.Querier, owner events.Owner, from, to uint64, yield func(Body) error) error {
	rows, err := q.Query(ctx, `SELECT leaf_index, id, sealed, `+writtenFirst+`, sealing, salt, CASE WHEN `+saysOccurred+` THEN metadata END FROM memories m
		WHERE owner = $1 AND leaf_index >= $2 AND leaf_index < $3 ORDER BY leaf_index`, string(owner), int64(from), int64(to))
	if err != nil {
		return fmt.Errorf("read texts: %w", err)
	}
	var b Body
	var created pgtype.Timestamptz
	targets := []any{&b.Leaf, &b.ID, (*pgtype.DriverBytes)(&b.Sealed), &created, &b.Sealing, (*string)(&b.Salt), (*pgtype.DriverBytes)(&b.Metadata)}
	if _, err := pgx.ForEachRow(rows, targets, func() error {
		b.Created = createdAt(created).Time()
		return yield(b)
	}); err != nil {
		return fmt.Errorf("read texts: %w", err)
	}
	return nil
}
