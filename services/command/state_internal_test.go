package command

import (
	"math"
	"testing"

	"github.com/memory-ledger/ledger/events"
)

// TestRetractionsTakeABit: an owner may have retracted a million memories, and the states
// of many owners are kept.
func TestRetractionsTakeABit(t *testing.T) {
	t.Parallel()
	const leaves = 1 << 20
	s := NewState(events.OwnerFromBytes([32]byte{1}))
	s.Leaves = leaves
	retract := func(leaf uint64) { s.apply(1, &events.Event{Data: &events.MemoryRetracted{LeafIndex: leaf}}) }
	for leaf := uint64(1); leaf < leaves; leaf += 2 {
		retract(leaf)
	}
	retract(leaves)         // there is no such leaf
	retract(math.MaxUint64) // nor this
	for leaf := range uint64(leaves + 100) {
		if s.Retracted.Has(leaf) != (leaf < leaves && leaf%2 == 1) {
			t.Fatalf("leaf %d of %d: %t", leaf, leaves, s.Retracted.Has(leaf))
		}
	}
	if bytes := 8 * cap(s.Retracted); s.Retracted.Has(math.MaxUint64) || bytes > leaves/4 {
		t.Errorf("%d retractions take %d bytes", leaves/2, bytes)
	}
}
