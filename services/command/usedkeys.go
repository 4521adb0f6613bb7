package command

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/memory-ledger/ledger/events"
)

const (
	// maxUsedKeys bounds the Idempotency-Keys kept of one owner. The database reads that
	// many in some tenths of a second, once.
	maxUsedKeys = 1 << 18
	// maxAllUsedKeys bounds the keys kept of all owners: some 40 MB.
	maxAllUsedKeys = 1 << 22
)

// usedKeys is a set of the Idempotency-Keys that an owner ever used, four bytes of each
// hash. Nearly all keys are new, and a new key that is not in the set needs no database
// lookup. With the maximum number of keys, one in 16,000 new keys looks used, and the
// database decides.
//
// The set is filled before the first lookup, and again after the state was loaded again. The
// command that has the owner's turn adds keys. Any goroutine may drop the set, and then it
// stays dropped.
type usedKeys struct {
	left *atomic.Int64 // how many more keys all owners may keep

	mu     sync.Mutex
	filled bool                // or dropped
	set    map[uint32]struct{} // nil if dropped: any key may have been used
}

func newUsedKeys(left *atomic.Int64) *usedKeys {
	return &usedKeys{left: left, set: map[uint32]struct{}{}}
}

func fingerprint(key events.Hash) uint32 { return binary.BigEndian.Uint32(key[:]) }

// add adds a key, or drops all if there are too many. A key added before fill counts, too.
func (u *usedKeys) add(key events.Hash) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.put(key)
}

func (u *usedKeys) put(key events.Hash) {
	if u.set == nil {
		return
	}
	f := fingerprint(key)
	if _, known := u.set[f]; known {
		return
	}
	if len(u.set) == maxUsedKeys {
		u.forget()
		return
	}
	if u.left.Add(-1) < 0 {
		u.left.Add(1)
		u.forget()
		return
	}
	u.set[f] = struct{}{}
}

// fill adds the keys from before the owner's state was loaded.
func (u *usedKeys) fill(keys []events.Hash) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.filled = true
	for _, key := range keys {
		u.put(key)
	}
}

// known reports whether mayHold can be trusted yet.
func (u *usedKeys) known() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.filled
}

// mayHold returns false for a key that was never used.
func (u *usedKeys) mayHold(key events.Hash) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, held := u.set[fingerprint(key)]
	return held || u.set == nil
}

// restart empties a set that was not dropped. A state that is loaded again may include
// messages of other replicas that were never folded here, so the set lacks their keys.
func (u *usedKeys) restart() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.set == nil {
		return
	}
	u.left.Add(int64(len(u.set)))
	u.filled, u.set = false, map[uint32]struct{}{}
}

// drop frees the set's room for other owners.
func (u *usedKeys) drop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.forget()
}

func (u *usedKeys) forget() {
	u.left.Add(int64(len(u.set)))
	u.filled, u.set = true, nil
}
