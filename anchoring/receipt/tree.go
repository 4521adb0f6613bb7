package receipt

import (
	"crypto/sha256"
	"errors"
	"math/bits"

	"github.com/memory-ledger/ledger/events"
)

var errPath = errors.New("it has another number of hashes than it takes")

// node returns the hash of the parent of two nodes (RFC 6962, section 2.1).
func node(left, right events.Hash) events.Hash {
	b := make([]byte, 0, 1+2*events.HashSize)
	b = append(b, 0x01)
	b = append(b, left[:]...)
	return sha256.Sum256(append(b, right[:]...))
}

// fold hashes from a leaf up to the root. In right, true means that the sibling is on the
// right.
func (r *Receipt) fold(leaf events.Hash, right []bool) events.Hash {
	for i := range min(len(r.Siblings), len(right)) {
		if right[i] {
			leaf = node(leaf, r.Siblings[i])
		} else {
			leaf = node(r.Siblings[i], leaf)
		}
	}
	return leaf
}

// directions returns the directions of the path of a leaf in a tree. A node that is the
// last of its level and has no sibling takes no step (RFC 9162, section 2.1.3.2).
func directions(index, size uint64) []bool {
	var right []bool
	for node, last := index, size-1; last > 0; node, last = node>>1, last>>1 {
		switch {
		case node&1 == 1:
			right = append(right, false)
		case node < last:
			right = append(right, true)
		}
	}
	return right
}

// consistency follows a proof that the first from leaves are a prefix of the first to
// leaves. It returns the two roots that the proof leads to (RFC 9162, section 2.1.4.2).
// The caller compares them.
func consistency(from, to uint64, root events.Hash, path []events.Hash) (first, second events.Hash, err error) {
	switch {
	case from == 0 || from > to:
		return first, second, errPath
	case from == to:
		if len(path) > 0 {
			return first, second, errPath
		}
		return root, root, nil
	}
	if from&(from-1) == 0 {
		path = append([]events.Hash{root}, path...) // the path begins with the root of the first tree
	}
	if len(path) == 0 {
		return first, second, errPath
	}
	fn, sn := from-1, to-1
	shift := bits.TrailingZeros64(^fn)
	fn, sn = fn>>shift, sn>>shift
	first, second = path[0], path[0]
	for _, c := range path[1:] {
		if sn == 0 {
			return first, second, errPath
		}
		if fn&1 == 1 || fn == sn {
			first, second = node(c, first), node(c, second)
			for fn&1 == 0 && fn != 0 {
				fn, sn = fn>>1, sn>>1
			}
		} else {
			second = node(second, c)
		}
		fn, sn = fn>>1, sn>>1
	}
	if sn != 0 {
		return first, second, errPath
	}
	return first, second, nil
}
