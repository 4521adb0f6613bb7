package signin

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/keystore"
)

// NonceLifetime is how long a challenge can be answered.
const NonceLifetime = 5 * time.Minute

// clockSkew is how far the clock of a replica may be from the true time.
const clockSkew = 30 * time.Second

// A nonce is the text of 40 bytes: 16 random ones, the end of its life in Unix
// milliseconds (8 bytes, big endian), and a MAC of 16 bytes:
//
//	key = HKDF-SHA256(master key, no salt, info "memory-ledger/sign-in-nonce/v1"), 32 bytes
//	MAC = first 16 bytes of HMAC-SHA256(key, API ‖ 0 ‖ purpose ‖ 0 ‖ random ‖ expiry ‖ message)
//
// Message is the challenge without its nonce: it has the owner, the site and what the
// person at the wallet was told. API and purpose are words without a zero byte, random
// and expiry have fixed lengths, so no two challenges give the same bytes. The version
// is in the key's info.
type nonce struct {
	random  [16]byte
	expires events.Timestamp
}

const (
	nonceKeyInfo = "memory-ledger/sign-in-nonce/v1"
	macSize      = 16
	nonceSize    = 16 + 8 + macSize
)

// nonceText writes 40 bytes as 64 letters and digits without padding, as Sign-In
// With Solana wants it.
var nonceText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NonceKey authenticates nonces.
type NonceKey [sha256.Size]byte

// String keeps the key out of logs and error messages.
func (NonceKey) String() string { return "[nonce key]" }

// DeriveNonceKeys returns a key for each master key, in their order: all replicas
// of both APIs have the master key, and accept what one of them issued, also while it
// is being changed.
func DeriveNonceKeys(masters []keystore.MasterKey) ([]NonceKey, error) {
	keys := make([]NonceKey, len(masters))
	for i, master := range masters {
		key, err := hkdf.Key(sha256.New, master[:], nil, nonceKeyInfo, len(keys[i]))
		if err != nil {
			return nil, fmt.Errorf("derive the key of nonces: %w", err)
		}
		keys[i] = NonceKey(key)
	}
	return keys, nil
}

// Purpose is what a challenge is for. A nonce for one purpose is not good for another.
type Purpose string

// The purposes of challenges.
const (
	PurposeSignIn Purpose = "sign-in"
	PurposeErase  Purpose = "erase"
)

// scope is what a nonce is good for.
type scope struct {
	audience events.Audience // the API that issued it, whose sessions it is good for
	purpose  Purpose
	message  string // the challenge without its nonce
}

// text is the nonce as messages have it.
func (n nonce) text(key NonceKey, s scope) string {
	raw := make([]byte, 0, nonceSize)
	raw = append(raw, n.random[:]...)
	raw = binary.BigEndian.AppendUint64(raw, uint64(n.expires.Time().UnixMilli()))
	return nonceText.EncodeToString(append(raw, s.mac(key, raw)...))
}

// parseNonce returns the nonce that a text is, if it was issued for this scope under
// one of the keys. Of each nonce exactly one text is accepted: another spelling
// would be used a second time.
func parseNonce(text string, keys []NonceKey, s scope) (n nonce, ok bool) {
	var buffer [nonceSize]byte
	if len(text) != nonceText.EncodedLen(nonceSize) {
		return n, false
	}
	// The decoder passes over line breaks: then it has fewer bytes.
	if size, err := nonceText.Decode(buffer[:], []byte(text)); err != nil || size != nonceSize {
		return n, false
	}
	raw, mac := buffer[:nonceSize-macSize], buffer[nonceSize-macSize:]
	for _, key := range keys {
		if hmac.Equal(mac, s.mac(key, raw)) {
			copy(n.random[:], raw)
			n.expires = events.At(time.UnixMilli(int64(binary.BigEndian.Uint64(raw[len(n.random):]))))
			return n, true
		}
	}
	return n, false
}

// mac authenticates random bytes and expiry for a scope.
func (s scope) mac(key NonceKey, randomAndExpiry []byte) []byte {
	h := hmac.New(sha256.New, key[:])
	h.Write([]byte(string(s.audience) + "\x00" + string(s.purpose) + "\x00"))
	h.Write(randomAndExpiry)
	h.Write([]byte(s.message))
	return h.Sum(nil)[:macSize]
}
