package anchorer

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/events"
)

// errAltered says that an anchorer with this authority did not write this row.
var errAltered = errors.New("a row of the anchorer's state was altered, or is another authority's")

// rowKey makes the codes (MACs) of the owners' rows. The owner's row decides what is
// signed for the owner. An attacker who can write to the database can write that row, and
// also the tree cache that it is compared with. A code needs the authority's key:
//
//	key  = HKDF-SHA256(the authority's seed, no salt, info "memory-ledger/anchorer-row/v2"), 32 bytes
//	code = HMAC-SHA256(key, owner, a zero byte, state)
//
// If an attacker restores an older row, its code is valid. That row holds the state of
// the log at an earlier time: its root is a true root, and the fold does not continue
// from it.
type rowKey [sha256.Size]byte

func newRowKey(authority solana.PrivateKey) (rowKey, error) {
	const seed = 32
	raw, err := hkdf.Key(sha256.New, authority[:seed], nil, "memory-ledger/anchorer-row/v2", sha256.Size)
	if err != nil {
		return rowKey{}, fmt.Errorf("derive the key of the anchorer's rows: %w", err)
	}
	return rowKey(raw), nil
}

// code returns the code of an owner's row.
func (k rowKey) code(key events.Owner, state []byte) []byte {
	mac := hmac.New(sha256.New, k[:])
	mac.Write([]byte(key))
	mac.Write([]byte{0})
	mac.Write(state)
	return mac.Sum(nil)
}
