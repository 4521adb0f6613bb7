package anchorer

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/projections/tree"
)

// errAltered says that an anchorer with this authority did not write this row.
var errAltered = errors.New("a row of the anchorer's state was altered, or is another authority's")

const rowCodeInfo = "memory-ledger/anchorer-row/v1"

// rowKey makes the codes (MACs) of the owners' rows. The owner's row decides what is
// signed for the owner. An attacker who can write to the database can write that row, and
// also the tree cache that it is compared with. A code needs the authority's key:
//
//	key  = HKDF-SHA256(the authority's seed, no salt, info "memory-ledger/anchorer-row/v1"), 32 bytes
//	code = HMAC-SHA256(key, all fields that decide what is signed)
//
// If an attacker restores an older row, its code is valid. That row holds the state of
// the log at an earlier time: its root is a true root, and the fold does not continue
// from it.
type rowKey [sha256.Size]byte

func newRowKey(authority solana.PrivateKey) (rowKey, error) {
	const seed = 32
	raw, err := hkdf.Key(sha256.New, authority[:seed], nil, rowCodeInfo, sha256.Size)
	if err != nil {
		return rowKey{}, fmt.Errorf("derive the key of the anchorer's rows: %w", err)
	}
	return rowKey(raw), nil
}

// code returns the code of an owner's row. It leaves out the times of the leaves and
// their traces: they decide when something is signed, not what.
func (k rowKey) code(o *owner) []byte {
	mac := hmac.New(sha256.New, k[:])
	number := func(n uint64) {
		var raw [8]byte
		binary.BigEndian.PutUint64(raw[:], n)
		mac.Write(raw[:])
	}
	text := func(s []byte) {
		number(uint64(len(s)))
		mac.Write(s)
	}
	text([]byte(o.key))
	number(o.size())
	text(tree.Pack(o.frontier.Hashes()))
	number(o.chainSeq)
	number(uint64(o.chainVersion))
	number(o.confirmedSize)
	text(o.confirmedRoot[:])
	if b := o.batch; b != nil {
		text([]byte(b.id))
		number(b.from)
		number(b.size)
		text(b.root[:])
		if a := b.tried; a != nil {
			text([]byte(a.signature))
			text([]byte(a.blockhash))
			number(a.lastValid)
			text(a.transaction)
		}
	}
	return mac.Sum(nil)
}
