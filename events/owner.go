package events

import "github.com/memory-ledger/ledger/events/verify/leaf"

// Owner and Hash are defined beside the leaf, so that a verifier needs no event.
type (
	// Owner is a wallet's public key in base58. It names the person a log belongs to.
	Owner = leaf.Owner
	// Hash is a SHA-256 digest.
	Hash = leaf.Hash
)

// HashSize is the length of every hash and root in bytes.
const HashSize = leaf.HashSize

// ErrOwner says that a text is not the base58 form of 32 bytes.
var ErrOwner = leaf.ErrOwner

// ParseOwner checks the form of a public key.
func ParseOwner(s string) (Owner, error) { return leaf.ParseOwner(s) }

// OwnerFromBytes encodes a 32-byte public key.
func OwnerFromBytes(key [32]byte) Owner { return leaf.OwnerFromBytes(key) }
