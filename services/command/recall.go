package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/memory-ledger/ledger/events"
)

// recall finds the answer to an earlier write with the command's Idempotency-Key in the
// read model, and adds it to the state if the state lacks it.
func (x *Executor) recall(ctx context.Context, t *turn, c Command) error {
	key := idempotencyKey(c)
	if key == nil {
		return nil
	}
	s := t.of.state
	if err := x.trim(ctx, t); err != nil {
		return err
	}
	if written, known := s.idempotent[*key]; known {
		return x.recallBatch(ctx, written, c)
	}
	if !s.usedKeys.known() {
		if err := x.fillKeys(ctx, t); err != nil {
			return err
		}
	}
	if !s.usedKeys.mayHold(*key) {
		return nil
	}
	var (
		written Written
		found   bool
		leaves  uint64
	)
	err := x.ask(ctx, t, func() (err error) {
		written, found, leaves, err = x.cfg.Loader.FindWritten(ctx, s.Owner, *key)
		return err
	})
	if err != nil {
		return fmt.Errorf("look up Idempotency-Key: %w", err)
	}
	if found {
		s.idempotent[*key] = written
		return x.recallBatch(ctx, written, c)
	}
	return s.expect(leaves)
}

// idempotencyKey returns the hash of a command's Idempotency-Key, nil if it has none.
func idempotencyKey(c Command) *events.Hash {
	switch c := c.(type) {
	case *WriteMemory:
		return c.IdempotencyKey
	case *ConsumeDrop:
		return c.Memory.IdempotencyKey
	case *WriteBatch:
		return c.Memories[0].IdempotencyKey
	}
	return nil
}

// fillKeys reads the used keys from before the state was loaded, if the owner has leaves.
func (x *Executor) fillKeys(ctx context.Context, t *turn) error {
	s := t.of.state
	if s.leftTo == 0 {
		s.usedKeys.fill(nil)
		return nil
	}
	var (
		leaves uint64
		keys   []events.Hash
	)
	err := x.ask(ctx, t, func() (err error) {
		if leaves, err = x.cfg.Loader.Leaves(ctx, s.Owner); err == nil {
			keys, err = x.cfg.Loader.UsedKeys(ctx, s.Owner, maxUsedKeys)
		}
		return err
	})
	if err == nil {
		err = s.expect(leaves)
	}
	if err != nil {
		return fmt.Errorf("look up Idempotency-Keys: %w", err)
	}
	s.usedKeys.fill(keys)
	return nil
}

// trim removes the answers that the read model has by now from the state if there are many.
// If the read model does not answer, the next attempt is made when there are twice as many.
func (x *Executor) trim(ctx context.Context, t *turn) error {
	s := t.of.state
	if len(s.idempotent) < max(x.keptAnswers(), s.trimAt) {
		return nil
	}
	leaves := s.leftTo
	err := x.ask(ctx, t, func() error {
		soon, cancel := context.WithTimeout(ctx, trimPatience)
		defer cancel()
		if has, err := x.cfg.Loader.Leaves(soon, s.Owner); err == nil {
			leaves = has
		}
		return nil
	})
	if err != nil && !errors.Is(err, errAsking) {
		return err
	}
	kept := map[events.Hash]Written{} // another map: one from which answers are deleted stays as large
	for key, w := range s.idempotent {
		if w.LeafIndex >= leaves {
			kept[key] = w
		}
	}
	s.idempotent = kept
	s.leftTo = max(s.leftTo, leaves)
	if len(s.idempotent) >= mostAnswers {
		return fmt.Errorf("%w: the read models are %d keyed writes of %s behind", ErrOverloaded, len(s.idempotent), s.Owner)
	}
	s.trimAt = min(2*len(s.idempotent), mostAnswers)
	return nil
}

// keptAnswers returns how many answers a state keeps before it is trimmed.
func (x *Executor) keptAnswers() int {
	return min(maxIdempotent, max(leastIdempotent, allIdempotent/max(1, x.owners.Len())))
}
