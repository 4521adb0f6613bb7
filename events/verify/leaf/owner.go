package leaf

import (
	"errors"
	"fmt"

	"github.com/mr-tron/base58"
)

// Owner is a wallet's public key: the base58 form of 32 bytes. It names the
// person a log belongs to.
type Owner string

// ErrOwner says that a text is not the base58 form of 32 bytes.
var ErrOwner = errors.New("public key is not base58 of 32 bytes")

// MaxOwnerLength is the longest base58 form of 32 bytes. Longer texts are
// refused before they are decoded: base58 decoding takes time that grows with
// the square of the length.
const MaxOwnerLength = 44

// ParseOwner checks the form of a public key. It does not check whether the key is a
// point that may sign in; sign-in checks that.
func ParseOwner(s string) (Owner, error) {
	if len(s) < 32 || len(s) > MaxOwnerLength {
		return "", fmt.Errorf("%w: %d characters", ErrOwner, len(s))
	}
	raw, err := base58.Decode(s)
	if err != nil || len(raw) != 32 || base58.Encode(raw) != s {
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
