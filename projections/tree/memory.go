package tree

import (
	"fmt"
	"slices"

	"github.com/transparency-dev/merkle/compact"

	"github.com/memory-ledger/ledger/events"
)

// RootOf returns the root of a tree, given all its leaf hashes.
func RootOf(leaves []events.Hash) events.Hash {
	root, err := rootFrom(uint64(len(leaves)), inMemory(leaves))
	if err != nil {
		panic(err) // every node is in memory
	}
	return root
}

// InclusionOf returns the proof that leaf index is in the tree of the first
// size leaves.
func InclusionOf(leaves []events.Hash, index, size uint64) (Proof, error) {
	if size > uint64(len(leaves)) {
		return Proof{}, fmt.Errorf("%w: size %d of %d leaves", ErrRange, size, len(leaves))
	}
	return inclusionFrom(index, size, inMemory(leaves))
}

// ConsistencyOf returns the proof that the first from leaves are a prefix of
// the first to.
func ConsistencyOf(leaves []events.Hash, from, to uint64) ([]events.Hash, error) {
	if to > uint64(len(leaves)) {
		return nil, fmt.Errorf("%w: size %d of %d leaves", ErrRange, to, len(leaves))
	}
	return consistencyFrom(from, to, inMemory(leaves))
}

func inMemory(leaves []events.Hash) hashOf {
	return func(id compact.NodeID) (events.Hash, error) {
		begin, end := id.Coverage()
		return perfectRoot(slices.Clone(leaves[begin:end])), nil
	}
}

var frontiers = compact.RangeFactory{Hash: func(left, right []byte) []byte {
	h := hashChildren(events.Hash(left), events.Hash(right))
	return h[:]
}}

// Frontier is the state that appending to a tree needs: the roots of the perfect subtrees
// that make up the tree, largest first.
type Frontier struct{ r *compact.Range }

// EmptyFrontier returns the frontier of the empty tree.
func EmptyFrontier() *Frontier { return &Frontier{frontiers.NewEmptyRange(0)} }

// NewFrontier returns the frontier of a tree of the given size from the hashes that
// Hashes returned.
func NewFrontier(size uint64, hashes []events.Hash) (*Frontier, error) {
	raw := make([][]byte, len(hashes))
	for i := range hashes {
		raw[i] = slices.Clone(hashes[i][:])
	}
	r, err := frontiers.NewRange(0, size, raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRange, err)
	}
	return &Frontier{r}, nil
}

func (f *Frontier) Append(leaf events.Hash) {
	if err := f.r.Append(leaf[:], nil); err != nil {
		panic(err) // only a range that was tampered with fails
	}
}

func (f *Frontier) Size() uint64 { return f.r.End() }

func (f *Frontier) Root() events.Hash {
	root, err := f.r.GetRootHash(nil)
	if err != nil {
		panic(err) // the range begins at 0
	}
	if root == nil {
		return EmptyRoot
	}
	return events.Hash(root)
}

func (f *Frontier) Hashes() []events.Hash {
	hashes := make([]events.Hash, len(f.r.Hashes()))
	for i, h := range f.r.Hashes() {
		hashes[i] = events.Hash(h)
	}
	return hashes
}
