// Package retractions holds the read models of memories that their owners retracted, or had
// forgotten, and of erasures, which make all of an owner's earlier texts unreadable.
package retractions

import (
	"context"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify/leaf"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Leaves returns the owner's retracted leaves below size, and those of them that were
// forgotten. A row of the query has 64 leaves: an owner may have retracted millions.
func Leaves(ctx context.Context, q schema.Querier, owner events.Owner, size uint64) (retracted, forgotten leaf.Set, err error) {
	rows, err := q.Query(ctx, `SELECT leaf_index / 64, bit_or(1::bigint << (leaf_index % 64)::int), bit_or(forgotten::int::bigint << (leaf_index % 64)::int)
		FROM retractions WHERE owner = $1 AND leaf_index >= 0 AND leaf_index < $2 GROUP BY 1`, string(owner), min(size, math.MaxInt64))
	put := func(set *leaf.Set, word, bits int64) {
		if bits != 0 {
			set.Add(uint64(word) * 64) // makes room
			(*set)[word] = uint64(bits)
		}
	}
	if err == nil {
		var word, all, gone int64
		_, err = pgx.ForEachRow(rows, []any{&word, &all, &gone}, func() error {
			put(&retracted, word, all)
			put(&forgotten, word, gone)
			return nil
		})
	}
	if err != nil {
		return nil, nil, fmt.Errorf("retractions: %w", err)
	}
	return retracted, forgotten, nil
}

// Forgotten are the leaves of an owner that were forgotten.
type Forgotten struct {
	Owner  events.Owner
	Leaves []uint64
	Seq    uint64 // of the newest of their events
}

// ForgottenAfter returns the leaves that were forgotten in messages after a sequence and not
// erased since.
func ForgottenAfter(ctx context.Context, q schema.Querier, seq uint64) ([]Forgotten, error) {
	return column.All(ctx, q, "forgotten memories", func(row pgx.Row) (f Forgotten, err error) {
		err = row.Scan((*string)(&f.Owner), &f.Leaves, &f.Seq)
		return f, err
	}, `SELECT owner, array_agg(leaf_index ORDER BY leaf_index), max(seq) FROM retractions r WHERE forgotten AND seq > $1
		AND NOT EXISTS (SELECT FROM erasures e WHERE e.owner = r.owner AND e.leaves > r.leaf_index) GROUP BY owner`, seq)
}

// Projection adds a row for the first retraction of each memory, and for the first time that
// it was forgotten.
var Projection = projector.Fold("retractions", []string{"retractions"}, func(w *projector.Writer, r *projector.Record, e *events.Event) error {
	insert := func(index uint64, forgotten bool) {
		w.Exec(`INSERT INTO retractions (owner, leaf_index, forgotten, seq) VALUES ($1, $2, $3, $4)
			ON CONFLICT (owner, leaf_index, forgotten) DO NOTHING`, e.Owner, index, forgotten, r.Seq)
	}
	switch data := e.Data.(type) {
	case *events.MemoryRetracted:
		insert(data.LeafIndex, false)
	case *events.MemoryForgotten:
		insert(data.LeafIndex, true)
	}
	return nil
})

// Erased is the erased part of an owner's log.
type Erased struct {
	Times  int    // number of erasures; each destroyed the data key before it
	Leaves uint64 // leaves below this index no longer have a text
}

const erasedSQL = `SELECT count(*), coalesce(max(leaves), 0) FROM erasures WHERE owner = $1`

func FindErased(ctx context.Context, q schema.Querier, owner events.Owner) (e Erased, err error) {
	if err := q.QueryRow(ctx, erasedSQL, string(owner)).Scan(&e.Times, &e.Leaves); err != nil {
		return Erased{}, fmt.Errorf("erasures: %w", err)
	}
	return e, nil
}

func QueueErased(batch *pgx.Batch, owner events.Owner, e *Erased) {
	batch.Queue(erasedSQL, string(owner)).QueryRow(func(row pgx.Row) error { return row.Scan(&e.Times, &e.Leaves) })
}

// Erasures adds a row for each erasure.
var Erasures = projector.Fold("erasures", []string{"erasures"}, func(w *projector.Writer, r *projector.Record, e *events.Event) error {
	if data, ok := e.Data.(*events.OwnerErased); ok {
		w.Exec(`INSERT INTO erasures (owner, leaves, seq) VALUES ($1, $2, $3)`, e.Owner, data.Leaves, r.Seq)
	}
	return nil
})
