package signin

import (
	"crypto/ed25519"
	"encoding/hex"
	"testing"

	"github.com/memory-ledger/ledger/events"
)

// TestSigned: a valid signature is accepted, but none by a key without a holder.
func TestSigned(t *testing.T) {
	t.Parallel()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	message := []byte("message")
	owner := events.OwnerFromBytes([32]byte(key.Public().(ed25519.PublicKey)))
	if !signed(owner, message, ed25519.Sign(key, message)) || signed(owner, message, ed25519.Sign(key, []byte("another"))) {
		t.Error("a key that somebody holds")
	}
	identity := make([]byte, ed25519.SignatureSize) // S is 0, and R is the identity
	identity[0] = 1
	verified := 0
	for name, text := range map[string]string{
		"identity":               "0100000000000000000000000000000000000000000000000000000000000000",
		"order 2":                "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"order 4":                "0000000000000000000000000000000000000000000000000000000000000000",
		"order 8":                "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"not canonical":          "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"not canonical identity": "0100000000000000000000000000000000000000000000000000000000000080",
		"off the curve":          "0200000000000000000000000000000000000000000000000000000000000000",
	} {
		raw, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		// Whether such a signature verifies depends on the message: one in eight does.
		for i := range 32 {
			if ed25519.Verify(raw, []byte{byte(i)}, identity) {
				verified++
			}
			if signed(events.OwnerFromBytes([32]byte(raw)), []byte{byte(i)}, identity) {
				t.Errorf("%s signed message %d", name, i)
			}
		}
	}
	if verified < 64 {
		t.Errorf("%d signatures would have been good", verified)
	}
}
