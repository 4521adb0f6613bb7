// Package tree is the tree cache: an owner's RFC 6962 Merkle tree in tiles, and the roots
// and proofs that it gives.
//
// A tile holds 256 neighboring hashes of one tile level, as in the C2SP tlog-tiles
// layout. The hashes of level 0 are leaf hashes. The hashes of level n+1 are the roots of
// the full tiles of level n. A tile is written once, when it is full, and never changes.
// The right edge of a level is everything to the right of its last full tile. It needs no
// row, because its hashes are the leaf hashes in the memories, or the roots of the full
// tiles one level below.
//
// So a root or a proof reads at most a right edge of 255 rows and two tiles at each
// level, all in one round trip. The size of the tree changes only the number of levels.
// The arithmetic is transparency-dev/merkle's.
package tree

import (
	"errors"
	"fmt"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify"
)

// Width of a tile, as a power of two and as a number.
const (
	tileHeight = 8
	TileWidth  = 1 << tileHeight
)

var (
	// ErrRange: the requested index or size is outside the tree.
	ErrRange = errors.New("outside the tree")
	// ErrIncomplete: the read models do not hold that much of the owner's log.
	ErrIncomplete = errors.New("tree cache is incomplete")
)

// Proof proves that a leaf is in the tree of a size.
type Proof struct {
	Leaf  events.Hash
	Index uint64
	Size  uint64
	// Siblings is the RFC 6962 audit path from the leaf up. Directions[i] is true if
	// Siblings[i] is on the right.
	Siblings   []events.Hash
	Directions []bool
	Root       events.Hash
}

// RootOf returns the root of a tree of these leaves, or of the hashes of any level.
func RootOf(hashes []events.Hash) events.Hash {
	t := verify.NewTree()
	t.Append(hashes...)
	return t.Root()
}

type hashOf func(id compact.NodeID) (events.Hash, error)

// rootNodes returns the perfect subtrees that make up the tree of a size.
func rootNodes(size uint64) []compact.NodeID {
	return compact.RangeNodes(0, size, make([]compact.NodeID, 0, compact.RangeSize(0, size)))
}

func rootFrom(size uint64, hash hashOf) (events.Hash, error) {
	nodes := rootNodes(size)
	hashes := make([]events.Hash, len(nodes))
	for i, id := range nodes {
		var err error
		if hashes[i], err = hash(id); err != nil {
			return events.Hash{}, err
		}
	}
	whole, err := verify.TreeOf(size, hashes)
	if err != nil {
		return events.Hash{}, err
	}
	return whole.Root(), nil
}

func inclusionNodes(index, size uint64) (proof.Nodes, error) {
	nodes, err := proof.Inclusion(index, size)
	if err != nil {
		return proof.Nodes{}, fmt.Errorf("%w: %w", ErrRange, err)
	}
	return nodes, nil
}

func inclusionFrom(nodes proof.Nodes, index, size uint64, hash hashOf) (p Proof, err error) {
	p = Proof{Index: index, Size: size}
	if p.Leaf, err = hash(compact.NewNodeID(0, index)); err != nil {
		return Proof{}, err
	}
	if p.Siblings, err = pathFrom(nodes, hash); err != nil {
		return Proof{}, err
	}
	p.Directions = verify.Directions(index, size)
	p.Root = verify.Fold(p.Leaf, p.Siblings, p.Directions)
	return p, nil
}

func consistencyNodes(from, to uint64) (proof.Nodes, error) {
	nodes, err := proof.Consistency(from, to)
	if err != nil {
		return proof.Nodes{}, fmt.Errorf("%w: %w", ErrRange, err)
	}
	return nodes, nil
}

// pathFrom collects a proof's nodes, and folds the nodes that make up an incomplete
// subtree.
func pathFrom(nodes proof.Nodes, hash hashOf) ([]events.Hash, error) {
	raw := make([][]byte, len(nodes.IDs))
	for i, id := range nodes.IDs {
		h, err := hash(id)
		if err != nil {
			return nil, err
		}
		raw[i] = h[:]
	}
	raw, err := nodes.Rehash(raw, rfc6962.DefaultHasher.HashChildren)
	if err != nil {
		return nil, fmt.Errorf("fold proof: %w", err)
	}
	path := make([]events.Hash, len(raw))
	for i := range raw {
		path[i] = events.Hash(raw[i])
	}
	return path, nil
}
