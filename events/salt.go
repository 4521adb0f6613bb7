package events

import "encoding/hex"

// SaltBytes is how long a salt is that is sealed before its text.
const SaltBytes = HashSize

// Split takes an opened body apart: the text, and the salt that was sealed before it, in hex.
// The salt is empty if it derives from a secret, or if the body is too short to hold one.
func (s Salt) Split(body string) (salt, text string) {
	if s != SaltSealed || len(body) < SaltBytes {
		return "", body
	}
	return hex.EncodeToString([]byte(body[:SaltBytes])), body[SaltBytes:]
}
