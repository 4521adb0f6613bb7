package signin

import (
	"crypto/ed25519"
	"errors"
	"fmt"

	"filippo.io/edwards25519"
	"github.com/mr-tron/base58"

	"github.com/memory-ledger/ledger/events"
)

// ErrPublicKey: the text is not 32 bytes in base58.
var ErrPublicKey = errors.New("publicKey is malformed")

// ErrSignatureForm: the signature is not 64 bytes.
var ErrSignatureForm = errors.New("signature is not 64 bytes in base58")

// ParsePublicKey accepts the base58 form of 32 bytes. Whether they are a key that can sign
// is checked together with a signature.
func ParsePublicKey(s string) (events.Owner, error) {
	owner, err := events.ParseOwner(s)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrPublicKey, err)
	}
	return owner, nil
}

// signed reports whether the holder of a key signed the message, or an envelope of it. It
// refuses keys without a holder: bytes that are not the canonical form of a curve point, and points of
// small order. Small-order keys, such as 01 00…00, verify signatures that were made without
// a secret key. An address off the curve belongs to a program, not to a person.
func signed(owner events.Owner, message string, signature []byte) bool {
	raw := owner.Bytes()
	point, err := new(edwards25519.Point).SetBytes(raw[:])
	if err != nil || [32]byte(point.Bytes()) != raw {
		return false
	}
	if new(edwards25519.Point).MultByCofactor(point).Equal(edwards25519.NewIdentityPoint()) == 1 {
		return false
	}
	for bytes := range signable(owner, message) {
		if ed25519.Verify(raw[:], bytes, signature) {
			return true
		}
	}
	return false
}

// ParseSignature decodes the base58 form of 64 bytes.
func ParseSignature(s string) ([]byte, error) {
	// Decoding takes time quadratic in the length; 64 bytes have at most 88 characters.
	if len(s) < ed25519.SignatureSize || len(s) > 88 {
		return nil, ErrSignatureForm
	}
	raw, err := base58.Decode(s)
	if err != nil || len(raw) != ed25519.SignatureSize {
		return nil, ErrSignatureForm
	}
	return raw, nil
}
