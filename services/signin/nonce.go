package signin

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/keystore"
)

// NonceLifetime is how long a challenge is valid.
const NonceLifetime = 5 * time.Minute

// clockSkew is how far a replica's clock may be off.
const clockSkew = 30 * time.Second

// A nonce encodes 40 bytes: 16 random bytes, the expiry in Unix milliseconds (8 bytes, big
// endian), and a MAC of 16 bytes:
//
//	key = HKDF-SHA256(master key, no salt, info "memory-ledger/sign-in-nonce/v1"), 32 bytes
//	MAC = first 16 bytes of HMAC-SHA256(key, API ‖ 0 ‖ purpose ‖ 0 ‖ random ‖ expiry ‖ message)
//
// Message is the challenge without its nonce. It contains the owner, the site, and the
// statement shown in the wallet. API and purpose are words without a zero byte, and random
// and expiry have fixed lengths, so no two challenges give the same bytes. The key's info
// contains the version.
type nonce struct {
	random  [16]byte
	expires events.Timestamp
}

const (
	nonceKeyInfo = "memory-ledger/sign-in-nonce/v1"
	macSize      = 16
	nonceSize    = 16 + 8 + macSize
)

// nonceText encodes 40 bytes as 64 letters and digits without padding, as Sign-In With
// Solana requires.
var nonceText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

type NonceKey [sha256.Size]byte

// String keeps the key out of logs and error messages.
func (NonceKey) String() string { return "[nonce key]" }

// DeriveNonceKeys returns a key for each master key, in the same order. All replicas of
// both APIs have the master keys, so each accepts the others' nonces, even during a key
// rotation.
func DeriveNonceKeys(masters []keystore.Master) []NonceKey {
	keys := make([]NonceKey, len(masters))
	for i, master := range masters {
		secret := master.Secret()
		key, err := hkdf.Key(sha256.New, secret[:], nil, nonceKeyInfo, len(keys[i]))
		if err != nil {
			panic(err) // only for more than 255 hashes of output
		}
		keys[i] = NonceKey(key)
	}
	return keys
}

// Purpose is what a challenge is for. A nonce is valid for one purpose only.
type Purpose string

const (
	PurposeSignIn Purpose = "sign-in"
	PurposeErase  Purpose = "erase"
)

// scope is what a nonce is valid for.
type scope struct {
	audience events.Audience // the API that issued it
	purpose  Purpose
	message  string // the challenge without its nonce
}

func (n nonce) text(key NonceKey, s scope) string {
	raw := make([]byte, 0, nonceSize)
	raw = append(raw, n.random[:]...)
	raw = binary.BigEndian.AppendUint64(raw, uint64(n.expires.Time().UnixMilli()))
	return nonceText.EncodeToString(append(raw, s.mac(key, raw)...))
}

// parseNonce decodes a nonce that was issued for this scope under one of the keys. It
// accepts exactly one spelling of each nonce: a second one could be used a second time.
func parseNonce(text string, keys []NonceKey, s scope) (n nonce, ok bool) {
	var buffer [nonceSize]byte
	if len(text) != nonceText.EncodedLen(nonceSize) {
		return n, false
	}
	// The decoder skips line breaks and then returns fewer bytes.
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

func (s scope) mac(key NonceKey, randomAndExpiry []byte) []byte {
	h := hmac.New(sha256.New, key[:])
	h.Write([]byte(string(s.audience) + "\x00" + string(s.purpose) + "\x00"))
	h.Write(randomAndExpiry)
	h.Write([]byte(s.message))
	return h.Sum(nil)[:macSize]
}
