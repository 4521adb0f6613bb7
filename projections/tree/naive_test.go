package tree_test

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/memory-ledger/ledger/events"
)

// The functions of RFC 6962, section 2.1, written as in the RFC: by recursion over the
// list of leaves. They share nothing with the code under test.

func naiveRoot(leaves []events.Hash) events.Hash {
	switch len(leaves) {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return leaves[0]
	}
	// The tests need the roots of the same leaves at every size of the log, and leaves
	// never change. So cache the roots.
	these := sublist{&leaves[0], len(leaves)}
	if root, ok := roots.Load(these); ok {
		return root.(events.Hash)
	}
	k := split(len(leaves))
	root := naiveNode(naiveRoot(leaves[:k]), naiveRoot(leaves[k:]))
	roots.Store(these, root)
	return root
}

// sublist identifies adjacent leaves in memory.
type sublist struct {
	first *events.Hash
	n     int
}

var roots sync.Map // sublist to events.Hash

// naivePath is PATH(m, D[n]), and for each element, whether it is on the right.
func naivePath(m int, leaves []events.Hash) (path []events.Hash, right []bool) {
	if len(leaves) <= 1 {
		return nil, nil
	}
	k := split(len(leaves))
	if m < k {
		path, right = naivePath(m, leaves[:k])
		return append(path, naiveRoot(leaves[k:])), append(right, true)
	}
	path, right = naivePath(m-k, leaves[k:])
	return append(path, naiveRoot(leaves[:k])), append(right, false)
}

// naiveConsistency is PROOF(m, D[n]).
func naiveConsistency(m int, leaves []events.Hash) []events.Hash {
	if m == 0 || m == len(leaves) {
		return nil
	}
	return naiveSubproof(m, leaves, true)
}

func naiveSubproof(m int, leaves []events.Hash, known bool) []events.Hash {
	if m == len(leaves) {
		if known {
			return nil
		}
		return []events.Hash{naiveRoot(leaves)}
	}
	k := split(len(leaves))
	if m <= k {
		return append(naiveSubproof(m, leaves[:k], known), naiveRoot(leaves[k:]))
	}
	return append(naiveSubproof(m-k, leaves[k:], false), naiveRoot(leaves[:k]))
}

// split returns the largest power of two smaller than n.
func split(n int) int {
	k := 1
	for 2*k < n {
		k *= 2
	}
	return k
}

func naiveNode(left, right events.Hash) events.Hash {
	return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
}

func leafHashes(n int) []events.Hash {
	leaves := make([]events.Hash, n)
	for i := range leaves {
		leaves[i] = sha256.Sum256(binary.BigEndian.AppendUint64([]byte{0}, uint64(i)))
	}
	return leaves
}
