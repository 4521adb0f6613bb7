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
	"errors"
	"fmt"
	"math/bits"

	"github.com/mr-tron/base58"

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
func DeriveSecret(dataKey [32]byte) Secret { return derive(dataKey, ownerInfo) }

// DeriveGuestSecret derives the leaf secret of one credential that may not read.
func DeriveGuestSecret(dataKey [32]byte, credentialID string) Secret {
	return derive(dataKey, guestInfo+credentialID)
}

func derive(dataKey [32]byte, info string) Secret {
	out, err := hkdf.Key(sha256.New, dataKey[:], nil, info, 32)
	if err != nil {
		panic(err) // only for more than 255 hashes of output
	}
	return Secret(out)
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

// Commit returns the leaf hash of a memory: New and Hash at once.
func Commit(secret Secret, m Memory) (Hash, error) {
	l, err := New(secret, m)
	if err != nil {
		return Hash{}, err
	}
	return l.Hash()
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
		dst = append(dst, `","salt":"`...)
		dst = append(dst, salt...)
	}
	return append(dst, `","v":1}`...), nil
}

// HashSize is the length of every hash and root in bytes.
const HashSize = sha256.Size

// Hash is a SHA-256 digest. Its text form is 64 lowercase hex characters.
type Hash [HashSize]byte

// String returns the lowercase hex form.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// AppendText implements encoding.TextAppender.
func (h Hash) AppendText(b []byte) ([]byte, error) { return hex.AppendEncode(b, h[:]), nil }

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return h.AppendText(make([]byte, 0, 2*HashSize)) }

// UnmarshalText accepts 64 hex digits, lowercase only: a hash has one
// spelling, so that comparing texts compares hashes.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != 2*HashSize {
		return fmt.Errorf("hash: %d characters, want %d", len(text), 2*HashSize)
	}
	for _, c := range text {
		if c >= 'A' && c <= 'F' {
			return fmt.Errorf("hash: uppercase hex digit %q", c)
		}
	}
	if _, err := hex.Decode(h[:], text); err != nil {
		return fmt.Errorf("hash: %w", err)
	}
	return nil
}

// ParseHash is UnmarshalText as a function.
func ParseHash(s string) (Hash, error) {
	var h Hash
	err := h.UnmarshalText([]byte(s))
	return h, err
}

// Owner is a wallet's public key: the base58 form of 32 bytes. It names the
// person a log belongs to.
type Owner string

// ErrOwner says that a text is not the base58 form of 32 bytes.
var ErrOwner = errors.New("public key is not base58 of 32 bytes")

// IsBase58 reports whether text is the base58 form of size bytes. It refuses longer texts
// before decoding them, because decoding takes quadratic time.
func IsBase58(text string, size int) bool {
	if len(text) > size*11/8 {
		return false
	}
	raw, err := base58.Decode(text)
	return err == nil && len(raw) == size && base58.Encode(raw) == text
}

// ParseOwner checks the form of a public key. It does not check whether the key is a
// point that may sign in; sign-in checks that.
func ParseOwner(s string) (Owner, error) {
	if !IsBase58(s, 32) {
		return "", ErrOwner
	}
	return Owner(s), nil
}

// OwnerFromBytes encodes a 32-byte public key.
func OwnerFromBytes(key [32]byte) Owner { return Owner(base58.Encode(key[:])) }

// Bytes returns the public key. It panics on an Owner that did not come from
// ParseOwner or OwnerFromBytes.
func (o Owner) Bytes() [32]byte {
	raw, err := base58.Decode(string(o))
	if err != nil || len(raw) != 32 {
		panic(fmt.Sprintf("leaf: %q is not an owner", string(o)))
	}
	return [32]byte(raw)
}

// Set is a set of leaves of one log, by index. It takes a bit for each leaf up to the last
// one in it.
type Set []uint64

// Add adds a leaf.
func (s *Set) Add(leaf uint64) {
	if word := leaf / 64; word >= uint64(len(*s)) {
		*s = append(*s, make(Set, word+1-uint64(len(*s)))...)
	}
	(*s)[leaf/64] |= 1 << (leaf % 64)
}

// Has reports whether a leaf is in the set.
func (s Set) Has(leaf uint64) bool {
	return leaf/64 < uint64(len(s)) && s[leaf/64]>>(leaf%64)&1 == 1
}

// Below returns the set of all leaves before one.
func Below(leaf uint64) Set {
	s := make(Set, (leaf+63)/64)
	for word := range s {
		s[word] = ^uint64(0)
	}
	if leaf%64 != 0 {
		s[leaf/64] = 1<<(leaf%64) - 1
	}
	return s
}

// Remove removes a leaf.
func (s Set) Remove(leaf uint64) {
	if leaf/64 < uint64(len(s)) {
		s[leaf/64] &^= 1 << (leaf % 64)
	}
}

// Keep removes all leaves that are not in the other set.
func (s Set) Keep(other Set) {
	for word := range s {
		if word >= len(other) {
			clear(s[word:])
			return
		}
		s[word] &= other[word]
	}
}

// Drop removes all leaves of the other set.
func (s Set) Drop(other Set) {
	for word := range min(len(s), len(other)) {
		s[word] &^= other[word]
	}
}

// Count returns how many leaves are in the set.
func (s Set) Count() (n int) {
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}
