package command

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/memory-ledger/ledger/events"
)

const (
	// maxUsedKeys bounds what is remembered of one owner's Idempotency-Keys. To
	// read so many takes the database some tenths of a second, once.
	maxUsedKeys = 1 << 18
	// maxAllUsedKeys bounds what is remembered of all owners': some 40 MB.
	maxAllUsedKeys = 1 << 22
)

// usedKeys is the Idempotency-Keys that an owner ever used, four bytes of each
// one's hash, so that a new one, as nearly all are, costs no question to the
// database. One in 16,000 new keys looks used to an owner who has as many as are
// remembered; the database tells.
//
// It is filled before the first look. A command that has the owner's turn adds keys.
// Any goroutine may drop it. A dropped one stays dropped.
type usedKeys struct {
	left *atomic.Int64 // how many more all owners may have remembered

	mu     sync.Mutex
	filled bool                // or dropped
	set    map[uint32]struct{} // nil if dropped: any key may be used
}

func newUsedKeys(left *atomic.Int64) *usedKeys {
	return &usedKeys{left: left, set: map[uint32]struct{}{}}
}

func fingerprint(key events.Hash) uint32 { return binary.BigEndian.Uint32(key[:]) }

// add adds a key, or, where there are too many, drops all. What is added before
// the others are filled in counts as well.
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

// fill adds the keys of before the owner's state was loaded.
func (u *usedKeys) fill(keys []events.Hash) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.filled = true
	for _, key := range keys {
		u.put(key)
	}
}

// known reports whether a look tells anything yet.
func (u *usedKeys) known() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.filled
}

// mayHold is false for a key that was never used.
func (u *usedKeys) mayHold(key events.Hash) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, held := u.set[fingerprint(key)]
	return held || u.set == nil
}

// drop leaves its room to other owners.
func (u *usedKeys) drop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.forget()
}

func (u *usedKeys) forget() {
	u.left.Add(int64(len(u.set)))
	u.filled, u.set = true, nil
}
