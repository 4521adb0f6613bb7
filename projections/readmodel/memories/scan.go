package memories

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/schema"
)

// scanBatches lists the batches that can cover the leaves from $2 to $3: the batches that
// end within that range, and the first confirmed and first open batch that end beyond it.
const scanBatches = `
	SELECT id, size, true AS confirmed FROM batches
	WHERE owner = $1 AND state = 'confirmed' AND size > $2 AND size <= $3
UNION ALL
	(SELECT id, size, true FROM batches WHERE owner = $1 AND state = 'confirmed' AND size > $3 ORDER BY size, id LIMIT 1)
UNION ALL
	SELECT id, size, false FROM batches
	WHERE owner = $1 AND state IN ('cut', 'submitted') AND size > $2 AND size <= $3
UNION ALL
	(SELECT id, size, false FROM batches WHERE owner = $1 AND state IN ('cut', 'submitted') AND size > $3 ORDER BY size, id LIMIT 1)
ORDER BY size, id`

func scanRows(results pgx.BatchResults, yield func(*Memory) error) error {
	covering, err := results.Query()
	if err != nil {
		return err
	}
	covers, err := readCover(covering)
	if err != nil {
		return err
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		m := new(Memory)
		if err := scan(rows, m); err != nil {
			return err
		}
		m.BatchID, m.Anchored = covers.of(m.LeafIndex)
		if err := yield(m); err != nil {
			return err
		}
	}
	return rows.Err()
}

// At calls yield with the owner's memories of the given leaves, in leaf order, as they
// arrive from the database. The leaves must be in ascending order. At skips leaves that the
// read model does not hold. If yield returns an error, At stops and returns it. The caller
// can keep each Memory. The connection is busy until At returns, so yield should not wait
// for slow readers.
func At(ctx context.Context, q schema.Querier, owner events.Owner, leaves []uint64, yield func(*Memory) error) error {
	n := uint64(len(leaves))
	if n == 0 || leaves[n-1] > math.MaxInt64 {
		return nil
	}
	first, last := leaves[0], leaves[n-1]
	// One round trip. Read the batches first: a memory can then lack the newest batch,
	// but it never has a batch that is missing in the list.
	var batch pgx.Batch
	batch.Queue(scanBatches, string(owner), first, last)
	switch {
	case n == 1: // avoids planning again each time: PostgreSQL assumes
		// ten elements of an array whose length it does not know
		batch.Queue(`SELECT `+columns+` FROM memories m WHERE m.owner = $1 AND m.leaf_index = $2`, string(owner), first)
	// This is the number of leaves above which At reads the whole run, if it needs more than
	// a quarter of the run: this is faster.
	case n > 64 && last-first+1 < 4*n:
		batch.Queue(`SELECT `+columns+` FROM memories m
			WHERE m.owner = $1 AND m.leaf_index >= $2 AND m.leaf_index <= $3 ORDER BY m.leaf_index`, string(owner), first, last)
	default:
		// This query forces a plan that looks up each leaf. With "leaf_index = ANY",
		// PostgreSQL can read all rows of the owner to find them in order, if it
		// estimates that the table is small.
		batch.Queue(`SELECT `+columns+` FROM unnest($2::bigint[]) AS wanted (leaf) CROSS JOIN LATERAL (
				SELECT * FROM memories WHERE owner = $1 AND leaf_index = wanted.leaf OFFSET 0) m
			ORDER BY m.leaf_index`, string(owner), leaves)
	}
	results := q.SendBatch(ctx, &batch)
	defer results.Close()
	if err := scanRows(results, func(m *Memory) error {
		for len(leaves) > 0 && leaves[0] < m.LeafIndex {
			leaves = leaves[1:]
		}
		if len(leaves) == 0 || leaves[0] != m.LeafIndex {
			return nil
		}
		return yield(m)
	}); err != nil {
		return fmt.Errorf("memories of %d leaves: %w", n, err)
	}
	return nil
}

// cover finds the batch that covers a leaf. Leaves must be in ascending order.
type cover struct{ confirmed, open []sized }

type sized struct {
	size uint64
	id   *string
}

func readCover(rows pgx.Rows) (*cover, error) {
	var (
		c         cover
		id        column.UUID
		size      uint64
		confirmed bool
	)
	_, err := pgx.ForEachRow(rows, []any{&id, &size, &confirmed}, func() error {
		text := column.UUIDText(id)
		if confirmed {
			c.confirmed = append(c.confirmed, sized{size, &text})
		} else {
			c.open = append(c.open, sized{size, &text})
		}
		return nil
	})
	return &c, err
}

// of returns the batch that covers a leaf, nil if none does, and whether it is
// confirmed.
func (c *cover) of(leaf uint64) (id *string, anchored bool) {
	if b := reaching(&c.confirmed, leaf); b != nil {
		return b, true
	}
	return reaching(&c.open, leaf), false
}

// reaching drops the batches that do not reach the leaf, and returns the first remaining
// batch.
func reaching(list *[]sized, leaf uint64) *string {
	for len(*list) > 0 && (*list)[0].size <= leaf {
		*list = (*list)[1:]
	}
	if len(*list) == 0 {
		return nil
	}
	return (*list)[0].id
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
	// occurred; see [Body.Occurred].
	Metadata []byte
}

// Bodies calls yield with the sealed texts of the owner's leaves from (inclusive) to
// (exclusive), in leaf order, as they arrive. If yield returns an error, Bodies stops and
// returns it. It decodes the columns itself: a search passes 100,000 rows.
func Bodies(ctx context.Context, q schema.Querier, owner events.Owner, from, to uint64, yield func(Body) error) error {
	rows, err := q.Query(ctx, `SELECT leaf_index, id, sealed, `+writtenFirst+`, sealing, salt, CASE WHEN `+saysOccurred+` THEN metadata END FROM memories m
		WHERE owner = $1 AND leaf_index >= $2 AND leaf_index < $3 ORDER BY leaf_index`,
		pgx.QueryResultFormats{pgx.BinaryFormatCode}, string(owner), int64(from), int64(to))
	if err != nil {
		return fmt.Errorf("read texts: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		raw := rows.RawValues()
		if len(raw[0]) != 8 || len(raw[1]) != 16 || len(raw[3]) != 8 || len(raw[4]) != 2 {
			return fmt.Errorf("read texts: a row of %d, %d, %d and %d bytes", len(raw[0]), len(raw[1]), len(raw[3]), len(raw[4]))
		}
		b := Body{Leaf: binary.BigEndian.Uint64(raw[0]), ID: [16]byte(raw[1]), Sealed: raw[2], Sealing: int(binary.BigEndian.Uint16(raw[4])), Salt: events.Salt(raw[5]), Metadata: raw[6]}
		b.Created = time.UnixMicro(postgresEpoch.UnixMicro() + int64(binary.BigEndian.Uint64(raw[3])))
		if err := yield(b); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read texts: %w", err)
	}
	return nil
}

// postgresEpoch is the zero of PostgreSQL's timestamps.
var postgresEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
