// Package commitment makes the instruction that moves an on-chain commitment forward: the
// account that holds the newest size and root of one owner's log under one authority.
// Package verify has the bytes of both.
package commitment

import (
	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/events/verify"
)

type (
	// Account is the on-chain state of one owner's log.
	Account = verify.Account
	// Commit is the content of a commit instruction.
	Commit = verify.Commit
)

// Address returns the address at which the program keeps an authority's commitment to an
// owner's log: the canonical address of ["commitment", authority, owner].
func Address(program, authority, owner solana.PublicKey) (solana.PublicKey, uint8) {
	address, bump, err := solana.FindProgramAddress([][]byte{[]byte("commitment"), authority[:], owner[:]}, program)
	if err != nil {
		panic(err) // no bump gives an address: one of 2^256 inputs
	}
	return address, bump
}

// NewInstruction returns the instruction with which the authority commits and pays. The
// first commit creates the account. Committing the same size and root again succeeds and
// changes nothing. The program refuses a smaller size, and the same size with a different
// root.
func NewInstruction(program, authority solana.PublicKey, c Commit) solana.Instruction {
	address, _ := Address(program, authority, c.Owner)
	return solana.NewInstruction(program, solana.AccountMetaSlice{
		solana.Meta(authority).SIGNER().WRITE(),
		solana.Meta(address).WRITE(),
		solana.Meta(solana.SystemProgramID),
	}, c.Encode())
}
