package keystore

import (
	"crypto/cipher"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify/leaf"
)

// OwnerKey is an owner's keys, ready to use. It is safe for concurrent use.
type OwnerKey struct {
	owner  events.Owner
	aead   cipher.AEAD // of the data key
	secret leaf.Secret // of the owner's salts

	secrets
	durable atomic.Bool // the entry that it is from is known to be on stable storage
	// shared are the nodes at depths 16 and 24 above the leaf that was used last: the next
	// one is often below them, and costs a quarter. They go with the key.
	shared [2]atomic.Pointer[node]
}

// above returns the node below which a leaf's key is to be derived; nil if it was destroyed.
func (k *OwnerKey) above(leaf uint64) *node {
	n := k.nodes.above(leaf)
	for i := range k.shared {
		at := uint8(16 + 8*i)
		if n == nil || n.depth >= at {
			continue
		}
		last := k.shared[i].Load()
		if last == nil || leaf < uint64(last.first) || leaf >= last.end() {
			below := *n
			for below.depth < at {
				below = below.towards(leaf)
			}
			last = &below
			k.shared[i].Store(last)
		}
		n = last
	}
	return n
}

func newOwnerKey(owner events.Owner, x secrets) *OwnerKey {
	return &OwnerKey{owner: owner, aead: newAEAD(x.dataKey), secret: leaf.DeriveSecret(x.dataKey), secrets: x}
}

// Erasures returns how often the owner had erased everything when the key was made.
func (k *OwnerKey) Erasures() int { return k.erasures }

func (k *OwnerKey) Destroyed(leaf uint64) bool {
	return k.nodes.above(leaf) == nil
}

// Room returns ErrTooManyForgotten if the owner's entry has no room to destroy a leaf's key.
func (k *OwnerKey) Room(leaf uint64) error {
	// 16 KiB are for what other processes destroy at the same time, a kilobyte each.
	if k.nodes.above(leaf) != nil && k.nodes.without(leaf).wrappedBytes() > maxEntry-16<<10 {
		return ErrTooManyForgotten
	}
	return nil
}

// LeafSecret returns the secret of a leaf's salt. via is how the memory was written.
func (k *OwnerKey) LeafSecret(salt events.Salt, via *events.Via) (leaf.Secret, error) {
	switch {
	case salt == events.SaltOwner:
		return k.secret, nil
	case salt == events.SaltGuest && via != nil:
		return leaf.DeriveGuestSecret(k.dataKey, via.ID), nil
	}
	return leaf.Secret{}, fmt.Errorf("no secret for the salt %q", salt)
}

// Overhead is how much longer a sealed body is than its content: nonce and tag.
const Overhead = 12 + 16

// Seal encrypts the content of the memory of a leaf: nonce (12 bytes), ciphertext, tag (16
// bytes). The owner and the memory's id are associated data. sealing is the version.
//
// A log that was restored from an old backup gives indexes again whose keys were destroyed.
// Their memories are sealed under the data key.
func (k *OwnerKey) Seal(leaf uint64, memoryID, content string) (sealed []byte, sealing int) {
	sealing, aead := events.SealedByOwner, k.aead
	if n := k.above(leaf); n != nil {
		sealing, aead = events.SealedByLeaf, newAEAD(new(walk).to(n, leaf))
	}
	return seal(aead, []byte(content), append(k.bodyContext(sealing), memoryID...)), sealing
}

// Open decrypts what Seal made for the same leaf and memory.
func (k *OwnerKey) Open(sealing int, leaf uint64, memoryID string, sealed []byte) (string, error) {
	content, err := k.Opener().Open(sealing, leaf, []byte(memoryID), sealed)
	return string(content), err
}

// bodyContext returns the associated data up to the memory's id.
func (k *OwnerKey) bodyContext(sealing int) []byte {
	return fmt.Appendf(nil, "memory-ledger/body/v%d\x00%s\x00", sealing, k.owner)
}

// Opener opens many bodies of one owner, one after the other, without allocating for each
// what they share. It is not safe for concurrent use.
type Opener struct {
	key      *OwnerKey
	contexts [3][]byte // by sealing: the associated data up to the memory's id
	plain    []byte
	walk     walk
}

func (k *OwnerKey) Opener() *Opener {
	o := &Opener{key: k}
	o.contexts[events.SealedByOwner], o.contexts[events.SealedByLeaf] = k.bodyContext(events.SealedByOwner), k.bodyContext(events.SealedByLeaf)
	return o
}

// Open is OwnerKey.Open, but the content is valid only until the next call.
func (o *Opener) Open(sealing int, leaf uint64, memoryID, sealed []byte) ([]byte, error) {
	aead := o.key.aead
	switch {
	case sealing == events.SealedByOwner:
	case sealing != events.SealedByLeaf || leaf > math.MaxUint32: // no leaf has such a key
		return nil, fmt.Errorf("memory %s, sealing %d: %w", memoryID, sealing, ErrSealed)
	default:
		n := o.key.above(leaf)
		if n == nil {
			return nil, fmt.Errorf("memory %s: %w", memoryID, ErrLeafDestroyed)
		}
		aead = newAEAD(o.walk.to(n, leaf))
	}
	if len(sealed) < Overhead {
		return nil, ErrSealed
	}
	context := append(o.contexts[sealing], memoryID...)
	plain, err := aead.Open(o.plain[:0], sealed[:aead.NonceSize()], sealed[aead.NonceSize():], context)
	if err != nil {
		return nil, fmt.Errorf("memory %s: %w", memoryID, ErrSealed)
	}
	o.contexts[sealing], o.plain = context[:len(context)-len(memoryID)], plain
	return plain, nil
}
