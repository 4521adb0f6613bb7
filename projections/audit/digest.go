package audit

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
)

// digest stands for bytes that an audit has seen.
type digest [16]byte

// digester makes digests: GMAC (NIST SP 800-38D) under a key that one audit makes
// for itself and keeps to itself. Nobody who wrote to the log or the tables knew it,
// so whatever they wrote, two texts of n bytes have the same digest with a chance of
// n/16 in 2^128. The nonce is always the same, for it matters to who sees a digest,
// and nobody does. SHA-256, which has no need of a key, takes three times as long.
type digester struct {
	mac   cipher.AEAD
	nonce []byte
	sum   []byte
}

func newDigester() *digester {
	key := make([]byte, 16)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has one of the three lengths
	}
	mac, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // the block has the one length
	}
	return &digester{mac: mac, nonce: make([]byte, mac.NonceSize())}
}

// again returns a digester whose digests are the same, for another goroutine.
func (d *digester) again() *digester { return &digester{mac: d.mac, nonce: d.nonce} }

func (d *digester) of(b []byte) digest {
	d.sum = d.mac.Seal(d.sum[:0], d.nonce, nil, b)
	return digest(d.sum)
}
