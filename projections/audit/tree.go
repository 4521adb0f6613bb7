package audit

import (
	"crypto/sha256"
	"fmt"
	"hash"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/tree"
)

// tile is the tile of one level that is not full yet.
type tile struct {
	index  int64
	hashes hash.Hash // of the bytes of the tile
	tree   *tree.Frontier
}

// addToTiles adds a leaf to the owner's tiles. The root of a full tile is a leaf of
// the tile above it.
func (f *fold) addToTiles(o *owner, level int, h events.Hash) {
	if level == len(o.tiles) {
		o.tiles = append(o.tiles, &tile{hashes: sha256.New(), tree: tree.EmptyFrontier()})
	}
	t := o.tiles[level]
	t.hashes.Write(h[:])
	t.tree.Append(h)
	if t.tree.Size() < tree.TileWidth {
		return
	}
	root, sum := t.tree.Root(), t.hashes.Sum(nil)
	f.tiles[rowKey(string(o.name), fmt.Sprint(level), fmt.Sprint(t.index))] = func() (*owner, []any) { return o, []any{root, sum} }
	t.index, t.tree = t.index+1, tree.EmptyFrontier()
	t.hashes.Reset()
	f.addToTiles(o, level+1, root)
}
