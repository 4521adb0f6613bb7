package command

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
)

// ErrSupersededGone: a memory can't be corrected, because it was taken back.
var ErrSupersededGone = errors.New("a memory to supersede was retracted, forgotten or erased")

// Superseded is a memory that another one corrects.
type Superseded = memories.Hashed

// checkSuperseded refuses to correct a memory that was taken back.
func (c *WriteMemory) checkSuperseded(s *State) error {
	for _, m := range c.Supersedes {
		if s.Retracted.Has(m.Leaf) || m.Leaf < s.Erased.Leaves {
			return ErrSupersededGone
		}
	}
	return nil
}

// supersedes returns the leaves that the memory corrects. Equal memories can't be told
// apart by a receipt, which holds only hashes, so all of them are corrected, also those
// that the same message writes before, from the leaf first on.
func (c *WriteMemory) supersedes(first uint64, before []*WriteMemory) (leaves []uint64) {
	for _, m := range c.Supersedes {
		leaves = append(leaves, m.Leaf)
	}
	corrects := func(hash events.Hash) bool {
		return slices.ContainsFunc(c.Supersedes, func(m Superseded) bool { return m.Hash == hash })
	}
	for _, m := range c.alike {
		if corrects(m.Hash) && !slices.Contains(leaves, m.Leaf) {
			leaves = append(leaves, m.Leaf)
		}
	}
	for i, b := range before {
		if corrects(b.LeafHash) {
			leaves = append(leaves, first+uint64(i))
		}
	}
	return leaves
}

func writesOf(c Command) []*WriteMemory {
	switch c := c.(type) {
	case *WriteMemory:
		return []*WriteMemory{c}
	case *ConsumeDrop:
		return []*WriteMemory{&c.Memory}
	case *WriteBatch:
		return c.Memories
	}
	return nil
}

// findAlike finds all leaves that have the hashes of the memories that a command corrects.
// The state has no hashes: those that the read model has are looked up, and the newer ones
// are read from the log. It must run for each state that is decided on.
func (x *Executor) findAlike(ctx context.Context, e *entry, c Command) error {
	var hashes []events.Hash
	for _, m := range writesOf(c) {
		for _, one := range m.Supersedes {
			hashes = append(hashes, one.Hash)
		}
	}
	if hashes == nil {
		return nil
	}
	alike, seq, err := x.cfg.Loader.WithHash(ctx, e.state.Owner, hashes)
	if err != nil {
		return fmt.Errorf("find what is superseded: %w", err)
	}
	err = x.cfg.Log.OwnerTail(ctx, events.FamilyLedger, e.state.Owner, seq, func(r eventlog.Record) error {
		batch, err := events.DecodeBatch(r.Payload)
		for i := range batch {
			if data, ok := batch[i].Data.(*events.MemoryWritten); ok && slices.Contains(hashes, data.LeafHash) {
				alike = append(alike, Superseded{Leaf: data.LeafIndex, Hash: data.LeafHash})
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read owner's tail: %w", err)
	}
	alike = slices.DeleteFunc(alike, func(m Superseded) bool { return m.Leaf >= e.state.Leaves })
	for _, m := range writesOf(c) {
		m.alike = alike
	}
	return nil
}
