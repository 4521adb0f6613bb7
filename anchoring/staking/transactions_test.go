package staking_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/gagliardetto/solana-go"
	associatedtokenaccount "github.com/gagliardetto/solana-go/programs/associated-token-account"
	"github.com/gagliardetto/solana-go/programs/system"
	"github.com/gagliardetto/solana-go/programs/token"

	"github.com/memory-ledger/ledger/anchoring/staking"
	"github.com/memory-ledger/ledger/infra/testkit"
)

var must = testkit.Must

var update = flag.Bool("update", false, "write testdata/transactions.json")

// transactions are the vectors for clients, which check a transaction before a wallet
// signs it: each is the answer to a request to move Amount by Kind. Wrong is what a
// transaction does other than that.
type transactions struct {
	Program, Mint, Owner solana.PublicKey
	Transactions         []vector
}

type vector struct {
	Name        string
	Kind        staking.Kind
	Amount      string
	Transaction string
	Wrong       string `json:",omitempty"`
}

// TestTransactionsForClients writes or compares the vectors.
func TestTransactionsForClients(t *testing.T) {
	const path = "testdata/transactions.json"
	text, err := json.MarshalIndent(vectorsForClients(t), "", "  ")
	must(t, err)
	text = append(text, '\n')
	if *update {
		must(t, os.WriteFile(path, text, 0o600))
	}
	if have, err := os.ReadFile(path); err != nil || string(have) != string(text) {
		t.Errorf("%s is not current: %v", path, err)
	}
}

func vectorsForClients(t *testing.T) transactions {
	t.Helper()
	key := func(n byte) solana.PublicKey { return solana.PublicKey{0: n, 31: n} }
	owner, program, mint, stranger := key(1), key(2), key(3), key(4)
	tokensOf := func(wallet solana.PublicKey) solana.PublicKey {
		address, _, err := solana.FindAssociatedTokenAddress(wallet, mint)
		must(t, err)
		return address
	}
	tokens := tokensOf(owner)
	wire := func(payer solana.PublicKey, instructions ...solana.Instruction) []byte {
		tx, err := solana.NewTransaction(instructions, solana.Hash{7}, solana.TransactionPayer(payer))
		must(t, err)
		raw, err := tx.MarshalBinary()
		must(t, err)
		return raw
	}
	const amount = 1_000_000_007
	stake := staking.NewStake(program, mint, owner, tokens, amount)
	unstake := staking.NewUnstake(program, mint, owner, tokens, amount)
	create := associatedtokenaccount.NewCreateIdempotentInstructionBuilder().SetPayer(owner).SetWallet(owner).SetMint(mint).Build()
	createTheirs := associatedtokenaccount.NewCreateIdempotentInstructionBuilder().SetPayer(owner).SetWallet(stranger).SetMint(mint).Build()
	pay := system.NewTransferInstruction(5, owner, stranger).Build()
	approve := token.NewApproveInstruction(5, tokens, stranger, owner, nil).Build()
	// The vault of another wallet, in an instruction that is otherwise the owner's.
	elsewhere := func(in solana.Instruction, at int, to solana.PublicKey) solana.Instruction {
		data, err := in.Data()
		must(t, err)
		accounts := append(solana.AccountMetaSlice{}, in.Accounts()...)
		accounts[at] = &solana.AccountMeta{PublicKey: to, IsSigner: accounts[at].IsSigner, IsWritable: accounts[at].IsWritable}
		return solana.NewInstruction(in.ProgramID(), accounts, data)
	}
	theirVault := staking.Vault(program, mint, stranger)
	good := wire(owner, stake)
	versioned := append(append([]byte{}, good[:65]...), append([]byte{0x80}, good[65:]...)...)
	signed := append([]byte{}, good...)
	signed[1] = 1
	list := transactions{Program: program, Mint: mint, Owner: owner}
	add := func(name, wrong string, kind staking.Kind, raw []byte) {
		list.Transactions = append(list.Transactions, vector{name, kind, strconv.Itoa(amount), base64.StdEncoding.EncodeToString(raw), wrong})
	}
	add("stake", "", staking.Stake, good)
	add("unstake", "", staking.Unstake, wire(owner, unstake))
	add("unstake into a new token account", "", staking.Unstake, wire(owner, create, unstake))
	add("unstake, asked to stake", "amount", staking.Stake, wire(owner, unstake))
	add("stake, asked to unstake", "amount", staking.Unstake, good)
	add("another amount", "amount", staking.Stake, wire(owner, staking.NewStake(program, mint, owner, tokens, amount+1)))
	add("another payer", "payer", staking.Stake, wire(stranger, staking.NewStake(program, mint, stranger, tokensOf(stranger), amount)))
	add("a payer beside the owner", "transaction", staking.Stake, wire(stranger, stake))
	add("another program", "programId", staking.Stake, wire(owner, staking.NewStake(stranger, mint, owner, tokens, amount)))
	add("another mint", "accounts", staking.Stake, wire(owner, staking.NewStake(program, stranger, owner, tokens, amount)))
	add("the vault of somebody else", "accounts", staking.Stake, wire(owner, elsewhere(stake, 2, theirVault)))
	add("another token account", "accounts", staking.Unstake, wire(owner, elsewhere(unstake, 1, tokensOf(stranger))))
	add("a payment beside it", "instructions", staking.Stake, wire(owner, stake, pay))
	add("a payment before it", "instructions", staking.Unstake, wire(owner, pay, unstake))
	add("only a payment", "programId", staking.Stake, wire(owner, pay))
	add("an allowance beside it", "instructions", staking.Unstake, wire(owner, create, unstake, approve))
	add("the token account of somebody else", "instructions", staking.Unstake, wire(owner, createTheirs, unstake))
	add("a token account where none is needed", "instructions", staking.Stake, wire(owner, create, stake))
	add("the move twice", "instructions", staking.Stake, wire(owner, stake, stake))
	add("a versioned transaction", "transaction", staking.Stake, versioned)
	add("a transaction that is signed", "transaction", staking.Stake, signed)
	add("a byte more", "transaction", staking.Stake, append(append([]byte{}, good...), 0))
	add("a byte less", "transaction", staking.Stake, good[:len(good)-1])
	add("nothing", "transaction", staking.Stake, nil)
	return list
}

// Existing vectors in testdata must never change, because their format is deployed. Only
// add vectors.
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/instructions.json")
	must(t, err)
	var vectors []struct {
		Name                                 string
		Program, Mint, Wallet, Tokens, Vault solana.PublicKey
		Amount                               uint64 `json:",string"`
		Kind                                 staking.Kind
		Data                                 string
		Accounts                             []struct {
			Key              solana.PublicKey
			Signer, Writable bool
		}
	}
	must(t, json.Unmarshal(text, &vectors))
	for _, v := range vectors {
		if vault := staking.Vault(v.Program, v.Mint, v.Wallet); vault != v.Vault {
			t.Errorf("%s: vault %s", v.Name, vault)
		}
		build := staking.NewStake
		if v.Kind == staking.Unstake {
			build = staking.NewUnstake
		}
		in := build(v.Program, v.Mint, v.Wallet, v.Tokens, v.Amount)
		data, err := in.Data()
		must(t, err)
		if got := hex.EncodeToString(data); got != v.Data {
			t.Errorf("%s: data %s", v.Name, got)
		}
		metas := in.Accounts()
		if len(metas) != len(v.Accounts) {
			t.Fatalf("%s: %d accounts", v.Name, len(metas))
		}
		for i, want := range v.Accounts {
			if m := metas[i]; m.PublicKey != want.Key || m.IsSigner != want.Signer || m.IsWritable != want.Writable {
				t.Errorf("%s: account %d is %+v", v.Name, i, m)
			}
		}
	}
}
