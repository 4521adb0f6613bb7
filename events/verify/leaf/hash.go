package leaf

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

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
