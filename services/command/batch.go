package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
)

// WriteBatch adds leaves in one message: all of them, or none. The first memory carries the
// Idempotency-Key, since a key names one leaf. The key must differ from every key of a
// WriteMemory. The memories' own credentials are ignored.
type WriteBatch struct {
	Memories   []*WriteMemory // at least one
	Credential Credential

	// Replayed says that the answers, in Memories, are from an earlier request.
	Replayed bool

	earlier []Written // memories of the earlier message with the key, if any
}

func (c *WriteBatch) decide(s *State, now time.Time) (Decision, error) {
	if err := c.Credential.check(s, now); err != nil {
		return Decision{}, err
	}
	if len(c.earlier) > 0 {
		return Decision{}, c.replay(s)
	}
	written, err := s.write(now, c.Credential.Via(), c.Credential.Salt(), c.Memories...)
	if err != nil {
		return Decision{}, err
	}
	return Decision{events.KindMemory, append(written, c.Credential.use(s, now)...)}, nil
}

// replay answers a repeated batch with the first answers.
func (c *WriteBatch) replay(s *State) error {
	for i, memory := range c.Memories[:min(len(c.Memories), len(c.earlier))] {
		if err := c.earlier[i].isOf(memory, s); err != nil {
			return err
		}
	}
	if len(c.earlier) != len(c.Memories) {
		return ErrIdempotencyMismatch
	}
	for i, memory := range c.Memories {
		memory.Written = c.earlier[i]
	}
	c.Replayed = true
	return nil
}

// recallBatch reads the message of the earlier batch from the log: the read model knows only
// its first memory.
func (x *Executor) recallBatch(ctx context.Context, first Written, c Command) error {
	batch, ok := c.(*WriteBatch)
	if !ok {
		return nil
	}
	r, _, err := x.cfg.Log.At(ctx, first.Seq)
	if err != nil {
		return fmt.Errorf("read the batch at sequence %d: %w", first.Seq, err)
	}
	message, err := events.DecodeBatch(r.Payload)
	if batch.earlier = nil; err == nil {
		eachWritten(0, message, func(w Written, _ *events.MemoryWritten) { batch.earlier = append(batch.earlier, w) })
	}
	if len(batch.earlier) == 0 || batch.earlier[0].MemoryID != first.MemoryID {
		return fmt.Errorf("%w: sequence %d does not hold memory %s", eventlog.ErrContradiction, first.Seq, first.MemoryID)
	}
	return nil
}

// ErrSupersededGone: a memory can't be corrected, because it was taken back.
var ErrSupersededGone = errors.New("a memory to supersede was retracted, forgotten or erased")

// MaxSuperseded bounds the leaves that the memories of one message supersede: a request of
// some bytes corrects all equal memories, and each is a row in the read model.
const MaxSuperseded = 10_000

// ErrTooManySuperseded: there are too many memories that equal those to supersede.
var ErrTooManySuperseded = fmt.Errorf("the memories to supersede, with those that equal them, are more than %d", MaxSuperseded)

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
	named := leaves
	corrects := func(hash events.Hash) bool {
		return slices.ContainsFunc(c.Supersedes, func(m Superseded) bool { return m.Hash == hash })
	}
	for _, m := range c.alike {
		if corrects(m.Hash) && !slices.Contains(named, m.Leaf) {
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
	err = x.writtenAfter(ctx, e.state.Owner, seq, func(w Written, _ *events.MemoryWritten) {
		if slices.Contains(hashes, w.LeafHash) {
			alike = append(alike, Superseded{Leaf: w.LeafIndex, Hash: w.LeafHash})
		}
	})
	if err != nil {
		return err
	}
	alike = slices.DeleteFunc(alike, func(m Superseded) bool { return m.Leaf >= e.state.Leaves })
	for _, m := range writesOf(c) {
		m.alike = alike
	}
	return nil
}
