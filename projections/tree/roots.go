package tree

import (
	"context"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Size is the number of leaves of an owner's log.
type Size struct {
	Owner  events.Owner
	Leaves uint64
}

// Sized is the root of a log of a Size, or an error that wraps ErrIncomplete.
type Sized struct {
	Root events.Hash
	Err  error
}

// Roots returns the result of Root for each of many owners, with two queries for all of
// them. It uses up to 8 KiB of memory per owner.
func Roots(ctx context.Context, q schema.Querier, sizes []Size) ([]Sized, error) {
	caches := make([]cache, len(sizes))
	var leaves, roots edges
	for i, s := range sizes {
		if s.Leaves > math.MaxInt64 {
			return nil, fmt.Errorf("%w: size %d", ErrRange, s.Leaves)
		}
		caches[i] = make(cache)
		for p, need := range wantedOf(rootNodes(s.Leaves)) {
			switch {
			case p.full(s.Leaves):
				// The nodes of a root are the largest subtrees that fit. None
				// lies in a full tile: the tile's own root would be larger.
			case p.level == 0:
				leaves.add(i, s.Owner, p, need)
			default:
				roots.add(i, s.Owner, p, need)
			}
		}
	}
	if err := leaves.read(ctx, q, caches, `SELECT string_agg(leaf_hash, ''::bytea ORDER BY leaf_index) FROM memories m
		WHERE m.owner = d.owner AND m.leaf_index >= d.first AND m.leaf_index < d.until`); err != nil {
		return nil, fmt.Errorf("read leaves: %w", err)
	}
	if err := roots.read(ctx, q, caches, `SELECT string_agg(root, ''::bytea ORDER BY tile_index) FROM tiles t
		WHERE t.owner = d.owner AND t.level = d.below AND t.tile_index >= d.first AND t.tile_index < d.until`); err != nil {
		return nil, fmt.Errorf("read tree cache: %w", err)
	}
	found := make([]Sized, len(sizes))
	for i, s := range sizes {
		found[i].Root, found[i].Err = rootFrom(s.Leaves, caches[i].hash)
	}
	return found, nil
}

// edges are runs of hashes at the beginning of tiles that are not full, to be read from
// one table.
type edges struct {
	of           []int // index of the size
	places       []place
	owner        []string
	below        []int16 // tile level whose roots they are; 0 for leaves
	first, until []int64
}

func (e *edges) add(of int, owner events.Owner, p place, need uint64) {
	first := int64(p.tile * TileWidth)
	e.of, e.places, e.owner = append(e.of, of), append(e.places, p), append(e.owner, string(owner))
	e.below = append(e.below, int16(max(1, p.level)-1))
	e.first, e.until = append(e.first, first), append(e.until, first+int64(need))
}

// read stores the existing hashes of the edges in the caches. query returns the hashes of
// an edge d as one value, concatenated.
func (e *edges) read(ctx context.Context, q schema.Querier, caches []cache, query string) error {
	if len(e.of) == 0 {
		return nil
	}
	rows, err := q.Query(ctx, `SELECT n, (`+query+`) FROM unnest($1::text[], $2::smallint[], $3::bigint[], $4::bigint[])
		WITH ORDINALITY AS d (owner, below, first, until, n)`, e.owner, e.below, e.first, e.until)
	if err != nil {
		return err
	}
	var n int
	var packed []byte
	_, err = pgx.ForEachRow(rows, []any{&n, &packed}, func() error {
		// If a value is too short, or not a whole number of hashes, computing the root
		// fails later.
		caches[e.of[n-1]][e.places[n-1]] = Split(packed)
		return nil
	})
	return err
}

// Split splits concatenated hashes.
func Split(packed []byte) []events.Hash {
	hashes := make([]events.Hash, len(packed)/events.HashSize)
	for i := range hashes {
		hashes[i] = events.Hash(packed[i*events.HashSize : (i+1)*events.HashSize])
	}
	return hashes
}
