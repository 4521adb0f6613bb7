package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"filippo.io/edwards25519"
	"github.com/mr-tron/base58"

	"github.com/memory-ledger/ledger/events/verify/leaf"
)

// Sizes in bytes of what is on the chain. anchoring/program/README.md describes both
// formats byte for byte.
const (
	AccountLen     = 128
	InstructionLen = 80
)

const (
	accountMagic = "MLCOMMT1"
	tagCommit    = 1
)

// ErrNotCommitment says that an account's data is not a commitment.
var ErrNotCommitment = errors.New("not a commitment account")

// ErrNotCommit says that an instruction's data is not a commit.
var ErrNotCommit = errors.New("not a commit instruction")

// Account is the on-chain state of one owner's log.
type Account struct {
	Authority [32]byte // signs the commits
	Owner     [32]byte // whose log it commits to
	Size      uint64   // leaves committed
	Root      [32]byte // the log's root at that size
	Slot      uint64   // of the newest commit
	Count     uint64   // commits that moved the account
}

// Encode returns the account's data: magic[8], authority[32], owner[32], size, root[32],
// slot, count; integers are little-endian u64.
func (a Account) Encode() []byte {
	b := append(make([]byte, 0, AccountLen), accountMagic...)
	b = append(append(b, a.Authority[:]...), a.Owner[:]...)
	b = append(binary.LittleEndian.AppendUint64(b, a.Size), a.Root[:]...)
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, a.Slot), a.Count)
}

// DecodeAccount reads an account's data. The data alone proves nothing: the caller must
// check that the account is at its address and belongs to the program.
func DecodeAccount(data []byte) (Account, error) {
	if len(data) != AccountLen {
		return Account{}, fmt.Errorf("%w: %d bytes instead of %d", ErrNotCommitment, len(data), AccountLen)
	}
	if string(data[:8]) != accountMagic {
		return Account{}, fmt.Errorf("%w: magic %q", ErrNotCommitment, data[:8])
	}
	u64 := binary.LittleEndian.Uint64
	return Account{[32]byte(data[8:]), [32]byte(data[40:]), u64(data[72:]), [32]byte(data[80:]), u64(data[112:]), u64(data[120:])}, nil
}

// Commit is the content of a commit instruction.
type Commit struct {
	Owner [32]byte
	Size  uint64
	Root  [32]byte
}

// Encode returns the instruction's data: tag u64, owner[32], size u64, root[32].
func (c Commit) Encode() []byte {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, InstructionLen), tagCommit)
	return append(binary.LittleEndian.AppendUint64(append(b, c.Owner[:]...), c.Size), c.Root[:]...)
}

// DecodeCommit reads an instruction's data.
func DecodeCommit(data []byte) (Commit, error) {
	if len(data) != InstructionLen {
		return Commit{}, fmt.Errorf("%w: %d bytes instead of %d", ErrNotCommit, len(data), InstructionLen)
	}
	if tag := binary.LittleEndian.Uint64(data); tag != tagCommit {
		return Commit{}, fmt.Errorf("%w: tag %d", ErrNotCommit, tag)
	}
	return Commit{[32]byte(data[8:]), binary.LittleEndian.Uint64(data[40:]), [32]byte(data[48:])}, nil
}

// CommitmentAddress returns the address at which a program keeps an authority's commitment
// to an owner's log. It is empty if a key is malformed.
func CommitmentAddress(program, authority, owner string) string {
	return ProgramAddress(program, "commitment", authority, owner)
}

// ProgramAddress returns a program's canonical derived address of a word, if it is not
// empty, and keys. It is empty if a key is malformed.
func ProgramAddress(program, word string, keys ...string) string {
	seeds := [][]byte{[]byte(word)}
	for _, key := range append(keys, program) {
		if !leaf.IsBase58(key, 32) {
			return ""
		}
		raw, _ := base58.Decode(key) // checked above
		seeds = append(seeds, raw)
	}
	last := len(seeds) - 1
	seeds = append(seeds[:last:last], nil, seeds[last], []byte("ProgramDerivedAddress"))
	for bump := 255; bump >= 0; bump-- {
		seeds[last] = []byte{byte(bump)}
		sum := sha256.Sum256(bytes.Join(seeds, nil))
		if _, err := new(edwards25519.Point).SetBytes(sum[:]); err != nil { // not on the curve
			return base58.Encode(sum[:])
		}
	}
	return ""
}
