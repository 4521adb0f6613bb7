package command

import (
	"time"

	"github.com/memory-ledger/ledger/events"
)

// RetractMemory retracts a memory of the owner. If it was retracted before, nothing is
// appended.
type RetractMemory struct {
	MemoryID   string // of the leaf
	LeafIndex  uint64
	Credential Credential
}

func (c *RetractMemory) decide(s *State, now time.Time) (Decision, error) {
	if err := c.Credential.check(s, now); err != nil {
		return Decision{}, err
	}
	if s.Retracted.Has(c.LeafIndex) || c.LeafIndex < s.Erased.Leaves {
		return Decision{}, nil
	}
	retracted := &events.MemoryRetracted{MemoryID: c.MemoryID, LeafIndex: c.LeafIndex, Leaves: s.Leaves}
	return Decision{events.KindMemory, append([]events.Data{retracted}, c.Credential.use(s, now)...)}, nil
}

// ForgetMemory records that the text of a memory is made unreadable. The memory's key is
// destroyed after it. If the memory was forgotten or erased before, nothing is appended.
type ForgetMemory struct {
	MemoryID   string // of the leaf
	LeafIndex  uint64
	Credential Credential
}

func (c *ForgetMemory) decide(s *State, now time.Time) (Decision, error) {
	if err := c.Credential.check(s, now); err != nil {
		return Decision{}, err
	}
	if s.Forgotten.Has(c.LeafIndex) || c.LeafIndex < s.Erased.Leaves {
		return Decision{}, nil
	}
	return Decision{events.KindMemory, []events.Data{&events.MemoryForgotten{MemoryID: c.MemoryID, LeafIndex: c.LeafIndex, Leaves: s.Leaves}}}, nil
}
