package events

import (
	"crypto/sha256"
	"encoding/hex"
)

// partitionOf returns the partition that an owner's subjects name, one of 256, so that
// owners can be divided among deployments: the first byte of SHA-256 of the owner's text.
func partitionOf(o Owner) string {
	sum := sha256.Sum256([]byte(o))
	return hex.EncodeToString(sum[:1])
}
