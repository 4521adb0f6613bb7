package keystore

import (
	"bytes"
	"crypto/sha256"
	"math/bits"
	"slices"
	"sort"
)

// Each leaf has a key of its own: that of a leaf of a binary tree of keys (Goldreich,
// Goldwasser and Micali). A node's children are HMAC-SHA256(key, 0) and HMAC-SHA256(key, 1),
// and the bits of the leaf's index, the highest first, are the path. To destroy a leaf's
// key, the node above it is replaced by the siblings on the path: they give all other keys,
// and nothing gives this one.

const depth = 32

// node is an inner node of the tree, or a leaf.
type node struct {
	first uint32 // the first leaf below it
	depth uint8  // 0 is the root
	key   [KeySize]byte
}

// end is the first leaf after those below the node.
func (n *node) end() uint64 { return uint64(n.first) + 1<<(depth-n.depth) }

func (n *node) towards(leaf uint64) node {
	side := byte(leaf >> (depth - 1 - n.depth) & 1)
	return node{n.first + uint32(side)<<(depth-1-n.depth), n.depth + 1, child(&n.key, side)}
}

// nodes are the nodes that are left, in the order of their leaves. They don't overlap.
type nodes []node

// above returns the node that is above a leaf, or the leaf; nil if its key was destroyed.
func (t nodes) above(leaf uint64) *node {
	i := sort.Search(len(t), func(i int) bool { return t[i].end() > leaf })
	if i == len(t) || leaf < uint64(t[i].first) {
		return nil
	}
	return &t[i]
}

// without returns the nodes that give all keys but a leaf's.
func (t nodes) without(leaf uint64) nodes {
	n := t.above(leaf)
	if n == nil {
		return t
	}
	at := slices.IndexFunc(t, func(o node) bool { return o.first == n.first })
	var before, after nodes
	for on := *n; on.depth < depth; {
		left := node{on.first, on.depth + 1, child(&on.key, 0)}
		right := node{on.first + 1<<(depth-left.depth), left.depth, child(&on.key, 1)}
		if leaf < uint64(right.first) {
			after, on = append(after, right), left
		} else {
			before, on = append(before, left), right
		}
	}
	slices.Reverse(after)
	return slices.Concat(t[:at], before, after, t[at+1:])
}

// hole stands for a leaf whose key was destroyed.
const hole = 0xff

// encode appends the nodes and holes in the order of the leaves: each node as its depth and
// its key, each hole as one byte. Those at the end are left out.
func (t nodes) encode(b []byte) []byte {
	b = slices.Clip(b)
	next := uint64(0)
	for i := range t {
		b = append(b, bytes.Repeat([]byte{hole}, int(uint64(t[i].first)-next))...)
		b = append(append(b, t[i].depth), t[i].key[:]...)
		next = t[i].end()
	}
	return b
}

func decodeNodes(b []byte) (t nodes, err error) {
	for next := uint64(0); len(b) > 0; {
		if b[0] == hole {
			next, b = next+1, b[1:]
			continue
		}
		n := node{first: uint32(next), depth: b[0]}
		if n.depth > depth || next >= 1<<depth || bits.TrailingZeros64(next|1<<depth) < depth-int(n.depth) || len(b) <= KeySize {
			return nil, ErrSealed
		}
		n.key = [KeySize]byte(b[1 : 1+KeySize])
		t, next, b = append(t, n), n.end(), b[1+KeySize:]
	}
	return t, nil
}

// wrappedBytes is about how long the entry is that holds the nodes.
func (t nodes) wrappedBytes() int {
	holes := 0
	if len(t) > 0 { // the leaves between the nodes
		holes = int(t[len(t)-1].end())
		for i := range t {
			holes -= int(t[i].end() - uint64(t[i].first))
		}
	}
	return (KeySize+Overhead+holes+(1+KeySize)*len(t))*4/3 + 128
}

// walk is a path from a node to a leaf. The next path begins where the two part, so that
// leaves in their order cost two steps each.
type walk struct {
	node node // where it begins
	leaf uint64
	keys [depth + 1][KeySize]byte // by depth, from the node's on
	ok   bool
}

func (w *walk) to(n *node, leaf uint64) [KeySize]byte {
	from := int(n.depth)
	if w.ok && w.node == *n {
		from = max(from, depth-bits.Len64(w.leaf^leaf))
	} else {
		w.node, w.ok = *n, true
		w.keys[from] = n.key
	}
	for d := from; d < depth; d++ {
		w.keys[d+1] = child(&w.keys[d], byte(leaf>>(depth-1-d)&1))
	}
	w.leaf = leaf
	return w.keys[depth]
}

// child is HMAC-SHA256(key, side). A first search derives two keys a leaf; crypto/hmac takes
// three times as long, because it allocates.
func child(key *[KeySize]byte, side byte) [KeySize]byte {
	var inner [sha256.BlockSize + 1]byte
	var outer [sha256.BlockSize + sha256.Size]byte
	copy(inner[:], key[:])
	copy(outer[:], key[:])
	for i := range sha256.BlockSize {
		inner[i] ^= 0x36
		outer[i] ^= 0x5c
	}
	inner[sha256.BlockSize] = side
	sum := sha256.Sum256(inner[:])
	copy(outer[sha256.BlockSize:], sum[:])
	return sha256.Sum256(outer[:])
}
