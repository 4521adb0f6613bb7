// Package staking is the on-chain part of staking. A wallet's vault is a token account
// that only the on-chain program can move tokens out of, and only for that wallet.
// ../program/README.md describes the bytes of the instructions that fill and empty a
// vault; golden vectors are in testdata. Chain reads vaults and builds unsigned
// transactions, Watcher records the movements of vaults, and package lots does the
// arithmetic. Nothing here signs.
package staking

import (
	"encoding/binary"
	"fmt"

	"github.com/gagliardetto/solana-go"
)

// InstructionLen is the length of both instructions' data in bytes.
const InstructionLen = 16

const (
	seed       = "vault"
	tagStake   = 2
	tagUnstake = 3
)

// Kind is one of the two instructions.
type Kind uint64

// The kinds.
const (
	Stake   Kind = tagStake
	Unstake Kind = tagUnstake
)

// Move is the content of a staking instruction: an amount, in base units of the mint,
// into the vault or out of it.
type Move struct {
	Kind   Kind
	Amount uint64
}

// Encode returns the instruction's data: tag u64, amount u64, little-endian.
func (m Move) Encode() []byte {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, InstructionLen), uint64(m.Kind))
	return binary.LittleEndian.AppendUint64(b, m.Amount)
}

// Vault returns the address of a wallet's vault for a mint: the canonical address of
// ["vault", mint, wallet].
func Vault(program, mint, wallet solana.PublicKey) (solana.PublicKey, uint8, error) {
	address, bump, err := solana.FindProgramAddress([][]byte{[]byte(seed), mint[:], wallet[:]}, program)
	if err != nil {
		return solana.PublicKey{}, 0, fmt.Errorf("vault of %s: %w", wallet, err)
	}
	return address, bump, nil
}

// NewStake returns the instruction that moves amount from the wallet's token account into
// its vault. The first stake creates the vault, and the wallet pays for it.
func NewStake(program, mint, wallet, source solana.PublicKey, amount uint64) (solana.Instruction, error) {
	vault, _, err := Vault(program, mint, wallet)
	if err != nil {
		return nil, err
	}
	return solana.NewInstruction(program, solana.AccountMetaSlice{
		solana.Meta(wallet).SIGNER().WRITE(),
		solana.Meta(source).WRITE(),
		solana.Meta(vault).WRITE(),
		solana.Meta(mint),
		solana.Meta(solana.TokenProgramID),
		solana.Meta(solana.SystemProgramID),
	}, Move{Stake, amount}.Encode()), nil
}

// NewUnstake returns the instruction that moves amount from the wallet's vault
// into a token account of the same mint.
func NewUnstake(program, mint, wallet, destination solana.PublicKey, amount uint64) (solana.Instruction, error) {
	vault, _, err := Vault(program, mint, wallet)
	if err != nil {
		return nil, err
	}
	return solana.NewInstruction(program, solana.AccountMetaSlice{
		solana.Meta(wallet).SIGNER(),
		solana.Meta(destination).WRITE(),
		solana.Meta(vault).WRITE(),
		solana.Meta(mint),
		solana.Meta(solana.TokenProgramID),
	}, Move{Unstake, amount}.Encode()), nil
}
