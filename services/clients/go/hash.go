package memoryledger

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// Hash is a SHA-256 hash. Its text is 64 lowercase hex characters.
type Hash [sha256.Size]byte

var errHash = errors.New("it is not 64 lowercase hex characters")

// String returns the text.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It accepts only lowercase hex.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return errHash
	}
	if _, err := hex.Decode(h[:], text); err != nil || h.String() != string(text) {
		return errHash
	}
	return nil
}
