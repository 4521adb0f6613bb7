package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/tree"
)

// Limits of the tree cache (C2SP tlog-tiles) and of the body pages, as their packages
// document them.
const (
	leavesOfTile = 256
	leavesOfPage = 256
	longestBody  = 8192
)

// tile is the tile of one level that is not full yet.
type tile struct {
	index  int64
	hashes hash.Hash // of the bytes of the tile
	tree   *tree.Frontier
}

// page is a body page that is not full yet: the hashes of its three parts.
type page struct{ ids, lengths, bodies hash.Hash }

// addToTiles adds a leaf to the owner's tiles. The root of a full tile is a leaf of
// the tile above it.
func (f *fold) addToTiles(o *owner, level int, h events.Hash) {
	if level == len(o.tiles) {
		o.tiles = append(o.tiles, &tile{hashes: sha256.New(), tree: tree.EmptyFrontier()})
	}
	t := o.tiles[level]
	t.hashes.Write(h[:])
	t.tree.Append(h)
	if t.tree.Size() < leavesOfTile {
		return
	}
	root, sum := t.tree.Root(), t.hashes.Sum(nil)
	f.tiles[rowKey(string(o.name), fmt.Sprint(level), fmt.Sprint(t.index))] = func() (*owner, []any) { return o, []any{root, sum} }
	t.index, t.tree = t.index+1, tree.EmptyFrontier()
	t.hashes.Reset()
	f.addToTiles(o, level+1, root)
}

// addToPage adds a leaf to the owner's body page. The caller must call it before it adds
// the leaf to the tree.
func (f *fold) addToPage(o *owner, id, sealed []byte) {
	if o.page == nil {
		o.page = &page{sha256.New(), sha256.New(), sha256.New()}
	}
	p, index := o.page, o.leaves()
	p.ids.Write(id)
	length := uint32(0xffffffff)
	if len(sealed) <= longestBody {
		length = uint32(len(sealed))
		p.bodies.Write(sealed)
	}
	_ = binary.Write(p.lengths, binary.BigEndian, length) // a write to a hash never fails
	if index%leavesOfPage != leavesOfPage-1 {
		return
	}
	number := index / leavesOfPage
	want := binary.BigEndian.AppendUint64([]byte("MLP1\x00\x00\x01\x00"), number*leavesOfPage)
	for _, part := range []hash.Hash{p.ids, p.lengths, p.bodies} {
		want = part.Sum(want)
		part.Reset()
	}
	f.pages[rowKey(string(o.name), fmt.Sprint(number))] = func() (*owner, []any) { return o, []any{want} }
}
