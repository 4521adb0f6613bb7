package tree

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/transparency-dev/merkle/compact"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/schema"
)

func Root(ctx context.Context, q schema.Querier, owner events.Owner, size uint64) (events.Hash, error) {
	c, err := load(ctx, q, owner, size, rootNodes(size))
	if err != nil {
		return events.Hash{}, err
	}
	return rootFrom(size, c.hash)
}

// Inclusion returns the proof that the owner's leaf index is in the tree of
// the first size leaves.
func Inclusion(ctx context.Context, q schema.Querier, owner events.Owner, index, size uint64) (Proof, error) {
	nodes, err := inclusionNodes(index, size)
	if err != nil {
		return Proof{}, err
	}
	c, err := load(ctx, q, owner, size, append(nodes.IDs[:len(nodes.IDs):len(nodes.IDs)], compact.NewNodeID(0, index)))
	if err != nil {
		return Proof{}, err
	}
	return inclusionFrom(nodes, index, size, c.hash)
}

// Link proves that one size of a log is a prefix of another.
type Link struct {
	FromRoot, ToRoot events.Hash
	// Path is the proof of RFC 9162 that the first leaves are a prefix. It is empty if one
	// size is 0, or both are equal.
	Path []events.Hash
}

// Between returns the Link between two sizes of the owner's log, in one round trip.
func Between(ctx context.Context, q schema.Querier, owner events.Owner, from, to uint64) (Link, error) {
	nodes, err := consistencyNodes(from, to)
	if err != nil {
		return Link{}, err
	}
	// The nodes of the shorter log are also nodes of the longer one.
	c, err := load(ctx, q, owner, to, slices.Concat(nodes.IDs, rootNodes(from), rootNodes(to)))
	if err != nil {
		return Link{}, err
	}
	var l Link
	if l.FromRoot, err = rootFrom(from, c.hash); err != nil {
		return Link{}, err
	}
	if l.ToRoot, err = rootFrom(to, c.hash); err != nil {
		return Link{}, err
	}
	l.Path, err = pathFrom(nodes, c.hash)
	return l, err
}

// place identifies the tile that holds a node's hashes.
type place struct {
	level uint
	tile  uint64
}

// placeOf returns the node's tile, and the run of the tile's hashes below the node.
func placeOf(id compact.NodeID) (p place, first, count uint64) {
	p.level = id.Level / tileHeight
	height := id.Level % tileHeight
	begin := id.Index << height // in hashes of the tile level
	p.tile = begin / TileWidth
	return p, begin % TileWidth, 1 << height
}

// full reports whether the tile is full in a tree of the given size.
func (p place) full(size uint64) bool {
	below := tileHeight * (p.level + 1)
	return below < 64 && (p.tile+1) <= size>>below
}

// cache holds the hashes that were read for one answer: the first hashes of some tiles.
type cache map[place][]events.Hash

func (c cache) hash(id compact.NodeID) (events.Hash, error) {
	p, first, count := placeOf(id)
	hashes := c[p]
	if uint64(len(hashes)) < first+count {
		return events.Hash{}, fmt.Errorf("%w: level %d, tile %d holds %d hashes, need %d", ErrIncomplete, p.level, p.tile, len(hashes), first+count)
	}
	return RootOf(hashes[first : first+count]), nil
}

// wantedOf returns, for each tile, how many of its first hashes the nodes need.
func wantedOf(nodes []compact.NodeID) map[place]uint64 {
	wanted := make(map[place]uint64)
	for _, id := range nodes {
		p, first, count := placeOf(id)
		wanted[p] = max(wanted[p], first+count)
	}
	return wanted
}

// load reads the tiles of the nodes of a tree of the given size, in one round trip. If a
// tile is not full at that size, load reads its hashes from the level below, even if the
// owner's log has filled the tile since. Existing rows do not change, so the queries need
// no common snapshot.
func load(ctx context.Context, q schema.Querier, owner events.Owner, size uint64, nodes []compact.NodeID) (cache, error) {
	if size > math.MaxInt64 {
		return nil, fmt.Errorf("%w: size %d", ErrRange, size)
	}
	wanted := wantedOf(nodes)
	if len(wanted) == 0 {
		return nil, nil
	}
	c := make(cache, len(wanted))
	var batch pgx.Batch
	for p, need := range wanted {
		if first := p.tile * TileWidth; !p.full(size) {
			queueHashes(&batch, owner, p.level, first, first+need, func(hashes []events.Hash) { c[p] = hashes })
			continue
		}
		batch.Queue(`SELECT hashes FROM tiles WHERE owner = $1 AND level = $2 AND tile_index = $3`, string(owner), int16(p.level), int64(p.tile)).
			QueryRow(func(row pgx.Row) error {
				packed, found, err := column.One(row, "read tile", column.Value[[]byte])
				if err == nil && !found {
					err = fmt.Errorf("%w: no level %d tile %d", ErrIncomplete, p.level, p.tile)
				}
				if err == nil {
					c[p], err = unpack(packed)
				}
				return err
			})
	}
	if err := q.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("read tree cache: %w", err)
	}
	return c, nil
}

// queueHashes adds a query of the hashes of a tile level from one (inclusive) to another
// (exclusive), as far as they are there.
func queueHashes(batch *pgx.Batch, owner events.Owner, level uint, from, to uint64, found func([]events.Hash)) {
	sql, args := `SELECT leaf_hash FROM memories WHERE owner = $1 AND leaf_index >= $2 AND leaf_index < $3 ORDER BY leaf_index`,
		[]any{string(owner), int64(from), int64(to)}
	if level > 0 {
		sql = `SELECT root FROM tiles WHERE owner = $1 AND tile_index >= $2 AND tile_index < $3 AND level = $4 ORDER BY tile_index`
		args = append(args, int16(level-1))
	}
	batch.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		hashes := make([]events.Hash, 0, to-from)
		var h events.Hash
		_, err := pgx.ForEachRow(rows, []any{column.Hash(&h)}, func() error {
			hashes = append(hashes, h)
			return nil
		})
		found(hashes)
		return err
	})
}

// unpack splits the bytes of a tile into hashes.
func unpack(packed []byte) ([]events.Hash, error) {
	if len(packed) != TileWidth*events.HashSize {
		return nil, fmt.Errorf("tile of %d bytes", len(packed))
	}
	return Split(packed), nil
}

func Pack(hashes []events.Hash) []byte {
	packed := make([]byte, 0, len(hashes)*events.HashSize)
	for i := range hashes {
		packed = append(packed, hashes[i][:]...)
	}
	return packed
}

func Split(packed []byte) []events.Hash {
	hashes := make([]events.Hash, len(packed)/events.HashSize)
	for i := range hashes {
		hashes[i] = events.Hash(packed[i*events.HashSize : (i+1)*events.HashSize])
	}
	return hashes
}
