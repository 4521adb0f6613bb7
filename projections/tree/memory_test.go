package tree

import (
	"fmt"

	"github.com/transparency-dev/merkle/compact"

	"github.com/memory-ledger/ledger/events"
)

// RootFrom returns the root of a tree from its perfect subtrees.
func RootFrom(leaves []events.Hash) (events.Hash, error) {
	return rootFrom(uint64(len(leaves)), inMemory(leaves))
}

// InclusionOf returns the proof that leaf index is in the tree of the first size leaves.
func InclusionOf(leaves []events.Hash, index, size uint64) (Proof, error) {
	if size > uint64(len(leaves)) {
		return Proof{}, fmt.Errorf("%w: size %d of %d leaves", ErrRange, size, len(leaves))
	}
	nodes, err := inclusionNodes(index, size)
	if err != nil {
		return Proof{}, err
	}
	return inclusionFrom(nodes, index, size, inMemory(leaves))
}

// ConsistencyOf returns the proof that the first from leaves are a prefix of the first to.
func ConsistencyOf(leaves []events.Hash, from, to uint64) ([]events.Hash, error) {
	if to > uint64(len(leaves)) {
		return nil, fmt.Errorf("%w: size %d of %d leaves", ErrRange, to, len(leaves))
	}
	nodes, err := consistencyNodes(from, to)
	if err != nil {
		return nil, err
	}
	return pathFrom(nodes, inMemory(leaves))
}

func inMemory(leaves []events.Hash) hashOf {
	return func(id compact.NodeID) (events.Hash, error) {
		begin, end := id.Coverage()
		return RootOf(leaves[begin:end]), nil
	}
}
