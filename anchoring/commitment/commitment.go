// Package commitment encodes and decodes the on-chain commitment: the account that holds
// the newest size and root of one owner's log under one authority, and the instruction
// that moves it forward. Both formats are version 1. ../program/README.md describes them
// byte for byte; golden vectors are in testdata.
package commitment

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gagliardetto/solana-go"
)

// Sizes in bytes.
const (
	AccountLen     = 128
	InstructionLen = 80
)

const (
	seed      = "commitment"
	tagCommit = 1
)

var magic = [8]byte{'M', 'L', 'C', 'O', 'M', 'M', 'T', '1'}

// ErrNotCommitment says that an account's data is not a commitment.
var ErrNotCommitment = errors.New("not a commitment account")

// ErrNotCommit says that an instruction's data is not a commit.
var ErrNotCommit = errors.New("not a commit instruction")

// Account is the on-chain state of one owner's log.
type Account struct {
	Authority solana.PublicKey // signs the commits
	Owner     solana.PublicKey // whose log it commits to
	Size      uint64           // leaves committed
	Root      [32]byte         // the log's root at that size
	Slot      uint64           // of the newest commit
	Count     uint64           // commits that moved the account
}

// Encode returns the account's data: magic[8], authority[32], owner[32], size,
// root[32], slot, count; integers are little-endian u64.
func (a Account) Encode() []byte {
	b := make([]byte, 0, AccountLen)
	b = append(b, magic[:]...)
	b = append(b, a.Authority[:]...)
	b = append(b, a.Owner[:]...)
	b = binary.LittleEndian.AppendUint64(b, a.Size)
	b = append(b, a.Root[:]...)
	b = binary.LittleEndian.AppendUint64(b, a.Slot)
	return binary.LittleEndian.AppendUint64(b, a.Count)
}

// DecodeAccount reads an account's data. The data alone proves nothing: the caller must
// check that the account is at Address and belongs to the program.
func DecodeAccount(data []byte) (Account, error) {
	if len(data) != AccountLen {
		return Account{}, fmt.Errorf("%w: %d bytes instead of %d", ErrNotCommitment, len(data), AccountLen)
	}
	if [8]byte(data) != magic {
		return Account{}, fmt.Errorf("%w: magic %q", ErrNotCommitment, data[:8])
	}
	return Account{
		Authority: solana.PublicKey(data[8:40]),
		Owner:     solana.PublicKey(data[40:72]),
		Size:      binary.LittleEndian.Uint64(data[72:]),
		Root:      [32]byte(data[80:112]),
		Slot:      binary.LittleEndian.Uint64(data[112:]),
		Count:     binary.LittleEndian.Uint64(data[120:]),
	}, nil
}

// Address returns the address at which the program keeps an authority's commitment to an
// owner's log: the canonical address of ["commitment", authority, owner].
func Address(program, authority, owner solana.PublicKey) (solana.PublicKey, uint8, error) {
	address, bump, err := solana.FindProgramAddress([][]byte{[]byte(seed), authority[:], owner[:]}, program)
	if err != nil {
		return solana.PublicKey{}, 0, fmt.Errorf("commitment address of %s: %w", owner, err)
	}
	return address, bump, nil
}

// Commit is the content of a commit instruction.
type Commit struct {
	Owner solana.PublicKey
	Size  uint64
	Root  [32]byte
}

// Encode returns the instruction's data: tag u64, owner[32], size u64, root[32].
func (c Commit) Encode() []byte {
	b := make([]byte, 0, InstructionLen)
	b = binary.LittleEndian.AppendUint64(b, tagCommit)
	b = append(b, c.Owner[:]...)
	b = binary.LittleEndian.AppendUint64(b, c.Size)
	return append(b, c.Root[:]...)
}

// DecodeCommit reads an instruction's data.
func DecodeCommit(data []byte) (Commit, error) {
	if len(data) != InstructionLen {
		return Commit{}, fmt.Errorf("%w: %d bytes instead of %d", ErrNotCommit, len(data), InstructionLen)
	}
	if tag := binary.LittleEndian.Uint64(data); tag != tagCommit {
		return Commit{}, fmt.Errorf("%w: tag %d", ErrNotCommit, tag)
	}
	return Commit{
		Owner: solana.PublicKey(data[8:40]),
		Size:  binary.LittleEndian.Uint64(data[40:]),
		Root:  [32]byte(data[48:80]),
	}, nil
}

// NewInstruction returns the instruction with which the authority commits and pays. The
// first commit creates the account. Committing the same size and root again succeeds and
// changes nothing. The program refuses a smaller size, and the same size with a different
// root.
func NewInstruction(program, authority solana.PublicKey, c Commit) (solana.Instruction, error) {
	address, _, err := Address(program, authority, c.Owner)
	if err != nil {
		return nil, err
	}
	return solana.NewInstruction(program, solana.AccountMetaSlice{
		solana.Meta(authority).SIGNER().WRITE(),
		solana.Meta(address).WRITE(),
		solana.Meta(solana.SystemProgramID),
	}, c.Encode()), nil
}
