package command

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

const (
	// maxUsedKeys is how many keys usedKeys holds, in two bytes each, and maxOwnerKeys how
	// many of one owner: the database reads those in some tenths of a second, once.
	maxUsedKeys  = 1 << 22
	maxOwnerKeys = 1 << 18

	// tooManyKeys is the entry's keysRead if the owner has more than maxOwnerKeys: each of its
	// keys is looked up.
	tooManyKeys = -1
)

// recall finds the earlier write with the command's Idempotency-Key, if there is one. Most
// keys are new: without usedKeys, each would cost a look-up in the database, and keyed writes
// would be half as fast as others.
func (x *Executor) recall(ctx context.Context, e *entry, c Command) error {
	writes := writesOf(c)
	if len(writes) == 0 || writes[0].IdempotencyKey == nil {
		return nil
	}
	owner, key := e.state.Owner, *writes[0].IdempotencyKey
	isNew, err := x.isNew(ctx, e, key)
	if err != nil || isNew {
		return err
	}
	first, found, seq, err := x.cfg.Loader.FindWritten(ctx, owner, key)
	if err == nil && !found {
		err = x.writtenAfter(ctx, owner, seq, func(w Written, data *events.MemoryWritten) {
			if data.IdempotencyKeyHash != nil && *data.IdempotencyKeyHash == key {
				first, found = w, true
			}
		})
	}
	if err != nil {
		return fmt.Errorf("look up Idempotency-Key: %w", err)
	}
	if !found {
		return nil
	}
	writes[0].first = &first
	return x.recallBatch(ctx, first, c)
}

// isNew reports whether the owner never used the key. Before the first answer after a load,
// it reads the keys that the state was loaded without.
func (x *Executor) isNew(ctx context.Context, e *entry, key events.Hash) (bool, error) {
	owner := e.state.Owner
	if e.keysRead == tooManyKeys {
		return false, nil
	}
	if isNew, known := x.used.isNew(e.keysRead, owner, key); known {
		return isNew, nil
	}
	keys, seq, err := x.cfg.Loader.UsedKeys(ctx, owner, maxOwnerKeys)
	if err == nil && len(keys) > maxOwnerKeys {
		e.keysRead = tooManyKeys
		return false, nil
	}
	if err == nil {
		err = x.writtenAfter(ctx, owner, seq, func(_ Written, data *events.MemoryWritten) {
			if data.IdempotencyKeyHash != nil {
				keys = append(keys, *data.IdempotencyKeyHash)
			}
		})
	}
	if err != nil {
		return false, fmt.Errorf("look up Idempotency-Keys: %w", err)
	}
	e.keysRead = x.used.add(owner, keys...)
	return !slices.Contains(keys, key), nil // usedKeys may have begun again by now
}

// writtenAfter calls yield with the memories that an owner wrote after a sequence, which is
// how far the read model has the owner's messages.
func (x *Executor) writtenAfter(ctx context.Context, owner events.Owner, after uint64, yield func(Written, *events.MemoryWritten)) error {
	err := x.cfg.Log.OwnerTail(ctx, events.FamilyLedger, owner, after, func(r eventlog.Record) error {
		batch, err := events.DecodeBatch(r.Payload)
		eachWritten(r.Seq, batch, yield)
		return err
	})
	if err != nil {
		return fmt.Errorf("read owner's tail: %w", err)
	}
	return nil
}

// eachWritten calls yield with the memories that a message wrote.
func eachWritten(seq uint64, batch []events.Event, yield func(Written, *events.MemoryWritten)) {
	for i := range batch {
		if data, ok := batch[i].Data.(*events.MemoryWritten); ok {
			yield(Written{MemoryID: data.MemoryID, LeafIndex: data.LeafIndex, LeafHash: data.LeafHash, CreatedAt: batch[i].Time, Seq: seq}, data)
		}
	}
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
