package staking_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/staking"
)

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
