package memories

import (
	"context"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Scan calls yield with the owner's memories from a leaf index on, in leaf
// order, as they arrive from the database; limit 0 means all. It ends with the
// error of yield if there is one. A Memory may be kept. The connection is busy
// until Scan returns, so yield should not wait for slow readers.
func Scan(ctx context.Context, q schema.Querier, owner events.Owner, fromIndex uint64, limit int, yield func(*Memory) error) error {
	if fromIndex > math.MaxInt64 {
		return nil
	}
	last := int64(math.MaxInt64)
	if limit > 0 && int64(fromIndex) <= last-int64(limit) {
		last = int64(fromIndex) + int64(limit) - 1
	}
	// One round trip. The batches come first, so that a memory may lack the
	// newest batch but never be shown one that the list does not hold.
	var batch pgx.Batch
	batch.Queue(scanBatches, string(owner), int64(fromIndex), last)
	batch.Queue(`SELECT `+columns+` FROM memories m
		WHERE m.owner = $1 AND m.leaf_index >= $2 AND m.leaf_index <= $3 ORDER BY m.leaf_index`,
		string(owner), int64(fromIndex), last)
	results := q.SendBatch(ctx, &batch)
	defer results.Close()
	if err := scanRows(results, yield); err != nil {
		return fmt.Errorf("scan memories: %w", err)
	}
	return nil
}

// scanBatches lists what can cover the leaves from $2 to $3: the batches that
// end within, and the first ones that end beyond.
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

// denseLeaves is from how many leaves on a run that has every fourth of them, or
// more, is faster read as a whole, by COPY: it costs a round trip more, and a
// third for a row.
const denseLeaves = 64

// At returns the owner's memories of the given leaves, which rise, in leaf
// order, but for what is sealed. Fewer come back where the read model does not
// hold them. It is for a choice of leaves; Scan reads a run of them.
func At(ctx context.Context, pool *pgxpool.Pool, owner events.Owner, leaves []uint64) ([]Memory, error) {
	if n := len(leaves); n == 0 || leaves[n-1] > math.MaxInt64 {
		return nil, nil
	}
	read := chosen
	if n := uint64(len(leaves)); n > denseLeaves && leaves[n-1]-leaves[0] < 4*n {
		read = choiceOfRun
	}
	found, err := read(ctx, pool, owner, leaves)
	if err != nil {
		return nil, fmt.Errorf("memories of %d leaves: %w", len(leaves), err)
	}
	return found, nil
}

// chosen looks each leaf up, by a plan that can do nothing else: with "leaf_index
// = ANY" PostgreSQL may go through all that the owner has to find them in order,
// as soon as it takes the table for a short one.
func chosen(ctx context.Context, pool *pgxpool.Pool, owner events.Owner, leaves []uint64) ([]Memory, error) {
	var batch pgx.Batch // batches first, as in Scan
	batch.Queue(scanBatches, string(owner), leaves[0], leaves[len(leaves)-1])
	const butSealed = `SELECT m.id, m.owner, m.leaf_index, m.leaf_hash, m.metadata, NULL::bytea, m.created_at, m.seq `
	if len(leaves) == 1 { // not planned anew each time; see ByIDs
		batch.Queue(butSealed+`FROM memories m WHERE m.owner = $1 AND m.leaf_index = $2`, string(owner), leaves[0])
	} else {
		batch.Queue(butSealed+`FROM unnest($2::bigint[]) AS wanted (leaf) CROSS JOIN LATERAL (
				SELECT * FROM memories WHERE owner = $1 AND leaf_index = wanted.leaf OFFSET 0) m
			ORDER BY m.leaf_index`, string(owner), leaves)
	}
	results := pool.SendBatch(ctx, &batch)
	defer results.Close()
	found := make([]Memory, 0, len(leaves))
	return found, scanRows(results, func(m *Memory) error {
		found = append(found, *m)
		return nil
	})
}

// choiceOfRun reads all from the first leaf to the last.
func choiceOfRun(ctx context.Context, pool *pgxpool.Pool, owner events.Owner, leaves []uint64) ([]Memory, error) {
	first, last := leaves[0], leaves[len(leaves)-1]
	batches, err := pool.Query(ctx, scanBatches, string(owner), first, last)
	if err != nil {
		return nil, err
	}
	covers, err := readCover(batches)
	if err != nil {
		return nil, err
	}
	which := fmt.Sprintf(`leaf_index >= %d AND leaf_index <= %d`, first, last)
	rows, err := copyOut(ctx, pool, owner, `''::bytea`, which, last-first+1)
	if err != nil {
		return nil, err
	}
	found := rows[:0]
	for i := range rows {
		m := &rows[i]
		for len(leaves) > 0 && leaves[0] < m.LeafIndex {
			leaves = leaves[1:]
		}
		if len(leaves) == 0 || leaves[0] != m.LeafIndex {
			continue
		}
		m.Sealed = nil
		m.BatchID, m.Anchored = covers.of(m.LeafIndex)
		found = append(found, *m)
	}
	return found, nil
}

// cover answers which batch covers a leaf, for leaves in rising order.
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

// reaching drops batches that end before the leaf and returns the first left.
func reaching(list *[]sized, leaf uint64) *string {
	for len(*list) > 0 && (*list)[0].size <= leaf {
		*list = (*list)[1:]
	}
	if len(*list) == 0 {
		return nil
	}
	return (*list)[0].id
}
