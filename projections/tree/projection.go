package tree

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Projection writes the tiles that a slice fills.
type Projection struct{}

func (Projection) Name() string { return "tree" }

func (Projection) Tables() []string { return []string{"tiles"} }

type ownerTile struct {
	owner events.Owner
	place
}

// Apply implements projector.Projection. A slice that fills no tile reads and writes
// nothing: only one in 256 writes of an owner fills a tile. A slice that fills a tile
// costs one round trip, to read the hashes from earlier slices.
func (Projection) Apply(ctx context.Context, w *projector.Writer, s projector.Slice) error {
	filled, err := collect(s)
	if err != nil || len(filled) == 0 {
		return err
	}
	before, err := readBefore(ctx, w.Querier(), filled)
	if err != nil {
		return fmt.Errorf("read what the tiles begin with: %w", err)
	}
	tiles, err := complete(filled, before)
	if err != nil {
		return err
	}
	write(w, tiles)
	return nil
}

// tail holds the leaves that a slice adds to one owner's log.
type tail struct {
	owner  events.Owner
	first  uint64
	hashes []events.Hash
}

// collect returns the tails that fill a tile.
func collect(s projector.Slice) (filled []*tail, err error) {
	byOwner := make(map[events.Owner]*tail)
	for r, e := range s.Events() {
		data, ok := e.Data.(*events.MemoryWritten)
		if !ok {
			continue
		}
		t := byOwner[e.Owner]
		if t == nil {
			t = &tail{owner: e.Owner, first: data.LeafIndex}
			byOwner[e.Owner] = t
		}
		if data.LeafIndex != t.first+uint64(len(t.hashes)) {
			return nil, projector.Unexpected(r, e, "the leaf index does not continue the owner's log")
		}
		t.hashes = append(t.hashes, data.LeafHash)
		if data.LeafIndex/TileWidth == t.first/TileWidth && data.LeafIndex%TileWidth == TileWidth-1 {
			filled = append(filled, t) // the first tile that the tail fills
		}
	}
	return filled, nil
}

// levels returns, for each tile level in which the tail fills a tile, the range of hashes
// that the tail adds.
func (t *tail) levels() (levels []span) {
	from, to := t.first, t.first+uint64(len(t.hashes))
	for from/TileWidth < to/TileWidth {
		levels = append(levels, span{from, to})
		from, to = from/TileWidth, to/TileWidth
	}
	return levels
}

// span is a range of hashes of a tile level: from (inclusive) to (exclusive).
type span struct{ from, to uint64 }

// before returns the start of the tile in which the span begins.
func (s span) before() uint64 { return s.from &^ (TileWidth - 1) }

// readBefore reads, for every first tile of a level that a slice fills, the hashes that
// the tile already has.
func readBefore(ctx context.Context, q schema.Querier, filled []*tail) (map[ownerTile][]events.Hash, error) {
	var (
		before = make(map[ownerTile][]events.Hash)
		batch  pgx.Batch
	)
	for _, t := range filled {
		for level, s := range t.levels() {
			if s.before() == s.from {
				continue
			}
			key := ownerTile{t.owner, place{uint(level), s.from / TileWidth}}
			queueHashes(&batch, t.owner, uint(level), s.before(), s.from, func(hashes []events.Hash) { before[key] = hashes })
		}
	}
	if batch.Len() == 0 {
		return before, nil
	}
	return before, q.SendBatch(ctx, &batch).Close()
}

type tile struct {
	ownerTile
	hashes []events.Hash
	root   events.Hash
}

// complete assembles the tiles, lowest level first: the roots of one level are the hashes
// of the next.
func complete(filled []*tail, before map[ownerTile][]events.Hash) ([]tile, error) {
	var tiles []tile
	for _, t := range filled {
		hashes := t.hashes
		for level, s := range t.levels() {
			key := ownerTile{t.owner, place{uint(level), s.from / TileWidth}}
			had := before[key]
			if uint64(len(had)) != s.from-s.before() {
				return nil, fmt.Errorf("%w: level %d tile %d of %s has %d hashes before hash %d", ErrIncomplete, level, key.tile, t.owner, len(had), s.from)
			}
			run := append(had[:len(had):len(had)], hashes...)
			var roots []events.Hash
			for ; len(run) >= TileWidth; run = run[TileWidth:] {
				full := run[:TileWidth]
				root := RootOf(full)
				tiles = append(tiles, tile{key, full, root})
				roots = append(roots, root)
				key.tile++
			}
			hashes = roots
		}
	}
	return tiles, nil
}

// write adds the tiles. An existing tile is an error: a tile is never written twice.
func write(w *projector.Writer, tiles []tile) {
	rows := make([][]any, len(tiles))
	for i, t := range tiles {
		rows[i] = []any{string(t.owner), int16(t.level), int64(t.tile), Pack(t.hashes), t.root[:]}
	}
	w.ExecRows(`INSERT INTO tiles (owner, level, tile_index, hashes, root)
		SELECT * FROM unnest($1::text[], $2::smallint[], $3::bigint[], $4::bytea[], $5::bytea[])`, rows)
}
