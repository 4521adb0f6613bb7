package command

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
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
	if err := s.admit(now, c.Memories...); err != nil {
		return Decision{}, err
	}
	d := Decision{Kind: events.KindMemory}
	for i, memory := range c.Memories {
		if err := cmp.Or(memory.checkKey(s), memory.checkSuperseded(s)); err != nil {
			return Decision{}, err
		}
		written, err := memory.event(s.Leaves+uint64(i), now, c.Credential.Via(), c.Credential.Salt())
		if err != nil {
			return Decision{}, err
		}
		written.Supersedes = memory.supersedes(s.Leaves, c.Memories[:i])
		d.Events = append(d.Events, written)
	}
	d.Events = append(d.Events, c.Credential.use(s, now)...)
	return d, nil
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

// recallBatch reads the message of the earlier batch from the log: the state and the read
// model know only its first memory.
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
	if err == nil {
		batch.earlier = writtenIn(message)
	}
	if len(batch.earlier) == 0 || batch.earlier[0].MemoryID != first.MemoryID {
		return fmt.Errorf("%w: sequence %d does not hold memory %s", eventlog.ErrContradiction, first.Seq, first.MemoryID)
	}
	return nil
}

func writtenIn(message []events.Event) (all []Written) {
	for _, e := range message {
		if data, ok := e.Data.(*events.MemoryWritten); ok {
			all = append(all, Written{MemoryID: data.MemoryID, LeafIndex: data.LeafIndex, LeafHash: data.LeafHash, CreatedAt: e.Time})
		}
	}
	return all
}
