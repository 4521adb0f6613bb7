package tree

import (
	"fmt"
	"slices"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify"
)

var frontiers = compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}

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

// RootOf returns the root of a tree of these leaves, or of the hashes of any level.
func RootOf(hashes []events.Hash) events.Hash {
	f := EmptyFrontier()
	f.Append(hashes...)
	return f.Root()
}

func (f *Frontier) Append(leaves ...events.Hash) {
	for _, leaf := range leaves { // the range keeps this copy
		if err := f.r.Append(leaf[:], nil); err != nil {
			panic(err) // only a range that was tampered with fails
		}
	}
}

func (f *Frontier) Size() uint64 { return f.r.End() }

func (f *Frontier) Root() events.Hash {
	root, err := f.r.GetRootHash(nil)
	if err != nil {
		panic(err) // the range begins at 0
	}
	if root == nil {
		return verify.EmptyRoot
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
