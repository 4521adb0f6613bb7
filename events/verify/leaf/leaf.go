// Package leaf computes the leaf of a memory, version 1: the bytes that are
// hashed into the owner's Merkle log. Version 1 never changes; another form
// would be a version 2.
//
//	secret = HKDF-SHA256(data key, no salt, info "memory-ledger/leaf/v1"), 32 bytes;
//	         of a writer who may not read: info "memory-ledger/leaf/guest/v1" || credential id
//	salt   = lowercase hex of HMAC-SHA256(secret, JCS {content, metadata, owner, v: 1})
//	entry  = JCS {content, metadata, owner, salt, v: 1}
//	hash   = SHA-256(0x00 || entry)                         (RFC 6962, section 2.1)
//
// The salt depends only on the owner's key and the memory itself, so the same
// memory gives the same leaf through either API. An attacker who holds a
// sibling's hash and guesses its text still cannot check the guess. A writer who may
// not read has salts of its own: otherwise it could write its guesses and compare the
// hashes that it gets.
package leaf

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/memory-ledger/ledger/events/verify/canonical"
)

// Version of the form described above.
const Version = 1

const (
	ownerInfo = "memory-ledger/leaf/v1"
	guestInfo = "memory-ledger/leaf/guest/v1"
)

// Secret is the key of salts. It never leaves the service.
type Secret [32]byte

// DeriveSecret derives the owner's leaf secret from the 32-byte data key.
func DeriveSecret(dataKey [32]byte) (Secret, error) { return derive(dataKey, ownerInfo) }

// DeriveGuestSecret derives the leaf secret of one credential that may not read.
func DeriveGuestSecret(dataKey [32]byte, credentialID string) (Secret, error) {
	return derive(dataKey, guestInfo+credentialID)
}

func derive(dataKey [32]byte, info string) (Secret, error) {
	out, err := hkdf.Key(sha256.New, dataKey[:], nil, info, 32)
	if err != nil {
		return Secret{}, fmt.Errorf("derive leaf secret: %w", err)
	}
	return Secret(out), nil
}

// Memory is what a leaf commits to. Content must be valid UTF-8.
type Memory struct {
	Content  string
	Metadata canonical.Object
	Owner    Owner
}

// Leaf is a memory with its salt: everything that is needed to compute the
// hash again.
type Leaf struct {
	Memory
	Salt string // 64 lowercase hex characters
}

// New salts a memory.
func New(secret Secret, m Memory) (Leaf, error) {
	message, err := m.append(make([]byte, 0, m.size()), "")
	if err != nil {
		return Leaf{}, err
	}
	mac := hmac.New(sha256.New, secret[:])
	mac.Write(message)
	return Leaf{Memory: m, Salt: hex.EncodeToString(mac.Sum(nil))}, nil
}

// Commit returns the leaf hash of a memory: New and Hash at once, with the text
// written only once.
func Commit(secret Secret, m Memory) (Hash, error) {
	prefixed, err := m.append(append(make([]byte, 0, m.size()), 0x00), "")
	if err != nil {
		return Hash{}, err
	}
	mac := hmac.New(sha256.New, secret[:])
	mac.Write(prefixed[1:])
	var sum [sha256.Size]byte
	prefixed = prefixed[:len(prefixed)-len(ending)]
	prefixed = append(prefixed, salting...)
	prefixed = hex.AppendEncode(prefixed, mac.Sum(sum[:0]))
	return sha256.Sum256(append(prefixed, ending...)), nil
}

// Entry returns the bytes that are hashed.
func (l Leaf) Entry() ([]byte, error) {
	return l.append(make([]byte, 0, l.size()), l.Salt)
}

// Hash returns the RFC 6962 leaf hash of the entry.
func (l Leaf) Hash() (Hash, error) {
	prefixed, err := l.append(append(make([]byte, 0, l.size()), 0x00), l.Salt)
	if err != nil {
		return Hash{}, err
	}
	return sha256.Sum256(prefixed), nil
}

func (m Memory) size() int { return len(m.Content) + len(m.Content)/8 + m.Metadata.Len() + 192 }

// append writes the JCS form directly: the member names are already in the
// order that RFC 8785 requires, and the metadata is canonical.
func (m Memory) append(dst []byte, salt string) ([]byte, error) {
	dst = append(dst, `{"content":`...)
	dst, err := canonical.AppendString(dst, m.Content)
	if err != nil {
		return nil, fmt.Errorf("content: %w", err)
	}
	dst = append(dst, `,"metadata":`...)
	dst = append(dst, m.Metadata.String()...)
	dst = append(dst, `,"owner":"`...)
	dst = append(dst, m.Owner...)
	if salt != "" {
		dst = append(dst, salting...)
		dst = append(dst, salt...)
	}
	return append(dst, ending...), nil
}

// The text before and after the salt.
const (
	salting = `","salt":"`
	ending  = `","v":1}`
)
