package keystore

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
)

// Purposes of a Keeper's key, bound into it.
const (
	keptTexts = "memory-ledger/kept-texts/v1"
)

// Keeper seals and opens data derived from the texts of many memories. Its key is derived
// from the owner's data key:
//
//	key = HKDF-SHA256(data key, no salt, info, for example "memory-ledger/kept-texts/v1"), 32 bytes
//
// so what it sealed is lost with the data key, as bodies are. It is not safe for concurrent
// use.
type Keeper struct {
	aead    cipher.AEAD
	context []byte // associated data before the caller's
}

// Keeper returns a Keeper of texts. This process keeps what it seals in memory only. Deriving
// the key takes some microseconds. It is not cached in the OwnerKey: there are many of those,
// and few of their owners search.
func (k *OwnerKey) Keeper() (*Keeper, error) { return k.keeper(keptTexts) }

func (k *OwnerKey) keeper(purpose string) (*Keeper, error) {
	raw, err := hkdf.Key(sha256.New, k.dataKey[:], nil, purpose, KeySize)
	if err != nil {
		return nil, fmt.Errorf("derive the key of %s: %w", purpose, err)
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &Keeper{aead: aead, context: []byte(purpose + "\x00" + string(k.owner) + "\x00")}, nil
}

// KeptOverhead is how many bytes Keeper.Seal adds: nonce (12 bytes) and tag (16).
const KeptOverhead = 12 + 16

// Seal appends nonce, ciphertext and tag of plain to dst. The owner and context
// are bound in as associated data. Plain and dst must not overlap.
func (k *Keeper) Seal(dst, context, plain []byte) []byte {
	return k.aead.Seal(dst, nil, plain, k.bind(context))
}

// Open puts what Seal made with the same context into buffer, or into a larger
// one, and returns it. Errors: ErrSealed.
func (k *Keeper) Open(buffer, context, sealed []byte) ([]byte, error) {
	plain, err := k.aead.Open(buffer[:0], nil, sealed, k.bind(context))
	if err != nil {
		return nil, ErrSealed
	}
	return plain, nil
}

// bind returns the associated data, which is good until the next call.
func (k *Keeper) bind(context []byte) []byte {
	bound := append(k.context, context...)
	k.context = bound[:len(k.context)]
	return bound
}
