package verify

import (
	"errors"
	"fmt"
	"slices"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

var hasher = rfc6962.DefaultHasher

// EmptyRoot is the root of a log without leaves.
var EmptyRoot = Hash(hasher.EmptyRoot())

// Fold computes the root from a leaf up. A true direction means that the sibling is on
// the right.
func Fold(leaf Hash, siblings []Hash, right []bool) Hash {
	at := leaf[:]
	for i := range min(len(siblings), len(right)) {
		if right[i] {
			at = hasher.HashChildren(at, siblings[i][:])
		} else {
			at = hasher.HashChildren(siblings[i][:], at)
		}
	}
	return Hash(at)
}

// Directions returns the directions of a leaf in a tree. A node that is the last of its
// level and has no sibling adds no step (RFC 9162, section 2.1.3.2).
func Directions(index, size uint64) []bool {
	var right []bool
	for node, last := index, size-1; last > 0; node, last = node>>1, last>>1 {
		if node&1 == 1 {
			right = append(right, false)
		} else if node < last {
			right = append(right, true)
		}
	}
	return right
}

var errProofSize = errors.New("it has another number of hashes than it takes")

// Consistency follows a proof that the tree of from leaves, with the root first, is a
// prefix of a tree of to leaves. It returns the root of the larger tree, which the caller
// compares.
func Consistency(from, to uint64, first Hash, path []Hash) (second Hash, err error) {
	if from == 0 {
		return Hash{}, errProofSize
	}
	hashes := make([][]byte, len(path))
	for i := range path {
		hashes[i] = path[i][:]
	}
	// The library compares both roots. The root 0 never matches, so the library returns
	// the calculated second root in its error.
	var none Hash
	var mismatch proof.RootMismatchError
	err = proof.VerifyConsistency(hasher, from, to, hashes, first[:], none[:])
	if !errors.As(err, &mismatch) {
		return Hash{}, errProofSize
	}
	if Hash(mismatch.ExpectedRoot) == first {
		return Hash{}, fmt.Errorf("it leads to %x, not to %s", mismatch.CalculatedRoot, first)
	}
	return Hash(mismatch.CalculatedRoot), nil
}

var ranges = compact.RangeFactory{Hash: hasher.HashChildren}

// Tree is what appending to a log's tree needs: the roots of the perfect subtrees that make
// it up, one for each level at most.
type Tree struct{ r *compact.Range }

// NewTree returns the tree of an empty log.
func NewTree() Tree { return Tree{ranges.NewEmptyRange(0)} }

// TreeOf returns the tree of size leaves from what Hashes returned.
func TreeOf(size uint64, hashes []Hash) (Tree, error) {
	raw := make([][]byte, len(hashes))
	for i := range hashes {
		raw[i] = slices.Clone(hashes[i][:])
	}
	r, err := ranges.NewRange(0, size, raw)
	if err != nil {
		return Tree{}, fmt.Errorf("tree of %d leaves: %w", size, err)
	}
	return Tree{r}, nil
}

// Size returns the number of leaves.
func (t Tree) Size() uint64 { return t.r.End() }

// Append adds leaves, also to copies of the Tree.
func (t Tree) Append(leaves ...Hash) {
	for _, leaf := range leaves { // the range keeps this copy
		if err := t.r.Append(leaf[:], nil); err != nil {
			panic(err) // only a range that was tampered with fails
		}
	}
}

// Root returns the root of the leaves so far.
func (t Tree) Root() Hash {
	if t.Size() == 0 {
		return EmptyRoot
	}
	root, err := t.r.GetRootHash(nil)
	if err != nil {
		panic(err) // the range begins at 0
	}
	return Hash(root)
}

// Hashes returns the roots of the subtrees, the largest first.
func (t Tree) Hashes() []Hash {
	hashes := make([]Hash, len(t.r.Hashes()))
	for i, h := range t.r.Hashes() {
		hashes[i] = Hash(h)
	}
	return hashes
}
