package command

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/memory-ledger/ledger/events"
)

const (
	// keptAnswers is how many answers to keyed writes a state keeps, some 4 kB, before it
	// asks the read model which of them it has. While the read model makes no progress, a
	// state keeps at most mostAnswers, 8 MB.
	keptAnswers = 32
	mostAnswers = 1 << 16
	// maxUsedKeys is how many keys usedKeys holds, in two bytes each, and maxOwnerKeys how
	// many of one owner: the database reads those in some tenths of a second, once.
	maxUsedKeys  = 1 << 22
	maxOwnerKeys = 1 << 18
)

// recall finds the answer to an earlier write with the command's Idempotency-Key in the
// read model, and adds it to the state if the state lacks it. Most keys are new: without
// usedKeys, each would cost a look-up in the database, and keyed writes would be half as
// fast as others.
func (x *Executor) recall(ctx context.Context, e *entry, c Command) error {
	key := idempotencyKey(c)
	if key == nil {
		return nil
	}
	s := e.state
	if err := x.trim(e); err != nil {
		return err
	}
	if written, known := s.idempotent[*key]; known {
		return x.recallBatch(ctx, written, c)
	}
	isNew, err := x.isNew(ctx, e, *key)
	if err != nil || isNew {
		return err
	}
	written, found, leaves, err := x.cfg.Loader.FindWritten(ctx, s.Owner, *key)
	switch {
	case err != nil:
		return fmt.Errorf("look up Idempotency-Key: %w", err)
	case found:
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

// isNew reports whether the owner never used the key. Before the first answer after a load,
// it reads the keys that the state was loaded without.
func (x *Executor) isNew(ctx context.Context, e *entry, key events.Hash) (bool, error) {
	s := e.state
	if s.leftTo == 0 && e.keysRead == 0 {
		e.keysRead = x.used.add(s.Owner, keysOf(s)...)
	}
	if isNew, known := x.used.isNew(e.keysRead, s.Owner, key); known {
		return isNew, nil
	}
	leaves, err := x.cfg.Loader.Leaves(ctx, s.Owner)
	var keys []events.Hash
	if err == nil {
		keys, err = x.cfg.Loader.UsedKeys(ctx, s.Owner, maxOwnerKeys)
	}
	if err == nil {
		err = s.expect(leaves)
	}
	if err != nil {
		return false, fmt.Errorf("look up Idempotency-Keys: %w", err)
	}
	if len(keys) > maxOwnerKeys {
		return false, nil
	}
	e.keysRead = x.used.add(s.Owner, append(keys, keysOf(s)...)...)
	isNew, _ := x.used.isNew(e.keysRead, s.Owner, key)
	return isNew, nil
}

// trim removes the answers that the read model has by now from the state, if there are many.
// It asks the read model beside the commands: while the database is away, an owner whose
// state is in memory can write.
func (x *Executor) trim(e *entry) error {
	s := e.state
	if len(s.idempotent) < keptAnswers {
		return nil
	}
	if leaves := e.projected.Load(); leaves > s.leftTo {
		kept := map[events.Hash]Written{} // another map: one from which answers are deleted stays as large
		for key, w := range s.idempotent {
			if w.LeafIndex >= leaves {
				kept[key] = w
			}
		}
		s.idempotent, s.leftTo, s.trimAt = kept, leaves, 2*len(kept)
	}
	if len(s.idempotent) >= max(keptAnswers, min(s.trimAt, mostAnswers)) && e.asking.CompareAndSwap(false, true) {
		s.trimAt = 2 * len(s.idempotent)
		go x.ask(e, s.Owner)
	}
	if len(s.idempotent) >= mostAnswers {
		return fmt.Errorf("%w: the read models are %d keyed writes of %s behind", ErrOverloaded, len(s.idempotent), s.Owner)
	}
	return nil
}

// ask notes how many leaves of an owner the read model has.
func (x *Executor) ask(e *entry, owner events.Owner) {
	defer e.asking.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), x.cfg.Timeout)
	defer cancel()
	if leaves, err := x.cfg.Loader.Leaves(ctx, owner); err == nil {
		e.projected.Store(leaves)
	}
}

// keysOf returns the keys whose answers a state has.
func keysOf(s *State) (keys []events.Hash) {
	for key := range s.idempotent {
		keys = append(keys, key)
	}
	return keys
}

// keysIn returns the keys that a message's writes have.
func keysIn(batch []events.Event) (keys []events.Hash) {
	for i := range batch {
		if data, ok := batch[i].Data.(*events.MemoryWritten); ok && data.IdempotencyKeyHash != nil {
			keys = append(keys, *data.IdempotencyKeyHash)
		}
	}
	return keys
}

// usedKeys is a Bloom filter of the Idempotency-Keys that owners used: what it does not hold
// is new. When it is full, it begins again, in the next epoch, and the keys of each owner
// are read again. With as many keys as it may hold, one new key in 400 looks used, and the
// database decides.
type usedKeys struct {
	mu    sync.Mutex
	bits  []uint64
	held  int
	epoch int // from 1 on
	seed  maphash.Seed
}

func newUsedKeys(most int) *usedKeys {
	return &usedKeys{bits: make([]uint64, most/4), epoch: 1, seed: maphash.MakeSeed()}
}

func (u *usedKeys) add(owner events.Owner, keys ...events.Hash) (epoch int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.held += len(keys); u.held > 4*len(u.bits) {
		clear(u.bits)
		u.held, u.epoch = len(keys), u.epoch+1
	}
	for _, key := range keys {
		u.each(owner, key, func(word *uint64, bit uint64) { *word |= bit })
	}
	return u.epoch
}

// isNew reports whether an owner never used a key. It is known only if all of the owner's
// keys were added in this epoch.
func (u *usedKeys) isNew(epoch int, owner events.Owner, key events.Hash) (isNew, known bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.each(owner, key, func(word *uint64, bit uint64) { isNew = isNew || *word&bit == 0 })
	return isNew, epoch == u.epoch
}

func (u *usedKeys) each(owner events.Owner, key events.Hash, do func(word *uint64, bit uint64)) {
	var h maphash.Hash
	h.SetSeed(u.seed)
	_, _ = h.WriteString(string(owner))
	_, _ = h.Write(key[:])
	sum := h.Sum64()
	for range 4 {
		do(&u.bits[sum>>6%uint64(len(u.bits))], 1<<(sum&63))
		sum = sum>>16 | sum<<48
	}
}
