package memoryledger

import (
	"encoding/base64"
	"encoding/binary"
	"slices"

	"github.com/mr-tron/base58"

	"github.com/memory-ledger/ledger/events/verify"
)

// StakeMove is a direction: into the vault or out of it.
type StakeMove uint64

// The moves. Their values are the tags of the program's instructions.
const (
	MoveStake   StakeMove = 2
	MoveUnstake StakeMove = 3
)

// StakingProgram names the program and the mint that a staking transaction may use. Ask
// the operator for both, by another way than the service: a program of another party could
// take everything that the wallet holds.
type StakingProgram struct{ ProgramID, Mint string }

// Programs of Solana.
const (
	systemProgram = "11111111111111111111111111111111"
	tokenProgram  = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
	walletProgram = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL" // makes a wallet's token accounts
)

// CheckTransaction checks a transaction of POST /staking/stake or /staking/unstake before
// a wallet signs it. The owner pays and signs alone. The transaction moves the amount, in
// base units, between the owner's own token account and the owner's vault, and does
// nothing else. Unstaking may first make the token account. The error is ErrTransaction.
func (p StakingProgram) CheckTransaction(transaction, owner string, move StakeMove, amount uint64) error {
	wire, err := base64.StdEncoding.Strict().DecodeString(transaction)
	if err != nil {
		return serviceLies(ErrTransaction, "transaction", "it is not base64")
	}
	tx, ok := decodeTransaction(wire)
	if !ok {
		return serviceLies(ErrTransaction, "transaction", "it is not an unsigned transaction with one signer")
	}
	if tx.keys[0] != owner {
		return serviceLies(ErrTransaction, "payer", "it is %s, not %s", tx.keys[0], owner)
	}
	vault := verify.ProgramAddress(p.ProgramID, "vault", p.Mint, owner)
	tokens := verify.ProgramAddress(walletProgram, "", owner, tokenProgram, p.Mint)
	if vault == "" || tokens == "" {
		return serviceLies(ErrTransaction, "programId", "program, mint and owner must be public keys in base58")
	}
	data := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(move)), amount)
	expected := instruction{p.ProgramID, []string{owner, tokens, vault, p.Mint, tokenProgram}, data}
	if move == MoveStake {
		expected.accounts = append(expected.accounts, systemProgram)
	}
	makes := instruction{walletProgram, []string{owner, tokens, owner, p.Mint, systemProgram, tokenProgram}, []byte{1}}
	if move == MoveUnstake && len(tx.instructions) == 2 && makes.differs(tx.instructions[0]) == "" {
		tx.instructions = tx.instructions[1:]
	}
	if len(tx.instructions) != 1 {
		return serviceLies(ErrTransaction, "instructions", "there are others than to move the amount")
	}
	if what := expected.differs(tx.instructions[0]); what != "" {
		return serviceLies(ErrTransaction, what, "it is not that of moving %d between this wallet and its vault", amount)
	}
	return nil
}

// instruction is an instruction with its keys in base58.
type instruction struct {
	program  string
	accounts []string
	data     []byte
}

// differs names the first part in which two instructions differ.
func (i instruction) differs(other instruction) string {
	switch {
	case i.program != other.program:
		return "programId"
	case !slices.Equal(i.data, other.data):
		return "amount"
	case !slices.Equal(i.accounts, other.accounts):
		return "accounts"
	}
	return ""
}

type unsignedTransaction struct {
	keys         []string
	instructions []instruction
}

// decodeTransaction reads a legacy transaction that lacks its one signature. Lookup tables
// could hide what versioned transactions do, and the service makes none of those.
func decodeTransaction(wire []byte) (tx unsignedTransaction, ok bool) {
	r := &wireReader{rest: wire}
	one, signature, header := r.length(), r.take(64), r.take(3)
	if r.short || one != 1 || slices.ContainsFunc(signature, func(b byte) bool { return b != 0 }) || header[0] != 1 || header[1] != 0 {
		return tx, false
	}
	for range r.length() {
		tx.keys = append(tx.keys, base58.Encode(r.take(32)))
	}
	r.take(32) // the blockhash
	key := func(index byte) string {
		if int(index) >= len(tx.keys) {
			r.short = true
			return ""
		}
		return tx.keys[index]
	}
	for range r.length() {
		in := instruction{program: key(r.take(1)[0])}
		for _, index := range r.take(r.length()) {
			in.accounts = append(in.accounts, key(index))
		}
		in.data = r.take(r.length())
		tx.instructions = append(tx.instructions, in)
	}
	return tx, !r.short && len(r.rest) == 0 && len(tx.keys) > 0
}

// wireReader reads Solana's encoding. Beyond the end it reads zeros, and short is true.
type wireReader struct {
	rest  []byte
	short bool
}

func (r *wireReader) take(n int) []byte {
	if n > len(r.rest) {
		r.short, r.rest = true, nil
		return make([]byte, min(n, 64))
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

// length reads a compact-u16. Its canonical form has one byte below 128, and a transaction
// has at most 1,232 bytes, so two bytes are enough.
func (r *wireReader) length() int {
	first := r.take(1)[0]
	if first < 0x80 {
		return int(first)
	}
	second := r.take(1)[0]
	if second == 0 || second >= 0x80 {
		r.short = true
		return 0
	}
	return int(first&0x7f) | int(second)<<7
}
