package command

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

// ErrSupersededGone: a memory can't be corrected, because it was taken back.
var ErrSupersededGone = errors.New("a memory to supersede was retracted, forgotten or erased")

// Superseded is a memory that another one corrects.
type Superseded struct {
	Leaf uint64
	Hash events.Hash
}

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
	for _, leaf := range c.alike {
		if !slices.Contains(leaves, leaf) {
			leaves = append(leaves, leaf)
		}
	}
	for i, b := range before {
		if slices.ContainsFunc(c.Supersedes, func(m Superseded) bool { return m.Hash == b.LeafHash }) {
			leaves = append(leaves, first+uint64(i))
		}
	}
	return leaves
}

// writesOf returns the memories that a command writes.
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
	for _, m := range writesOf(c) {
		if len(m.Supersedes) == 0 {
			continue
		}
		var hashes []events.Hash
		for _, one := range m.Supersedes {
			hashes = append(hashes, one.Hash)
		}
		leaves, seq, err := x.cfg.Loader.WithHash(ctx, e.state.Owner, hashes)
		if err != nil {
			return fmt.Errorf("find what is superseded: %w", err)
		}
		err = x.cfg.Log.OwnerTail(ctx, events.FamilyLedger, e.state.Owner, seq, func(r eventlog.Record) error {
			batch, err := events.DecodeBatch(r.Payload)
			for i := range batch {
				if data, ok := batch[i].Data.(*events.MemoryWritten); ok && slices.Contains(hashes, data.LeafHash) {
					leaves = append(leaves, data.LeafIndex)
				}
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("read owner's tail: %w", err)
		}
		m.alike = slices.DeleteFunc(leaves, func(leaf uint64) bool { return leaf >= e.state.Leaves })
	}
	return nil
}
