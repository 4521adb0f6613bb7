package stacktest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/infra/localchain"
	"github.com/memory-ledger/ledger/infra/localchain/localchaintest"
)

// Chain runs a chain for this test, with the commitment program on it. It returns the
// chain and the key pair file of an authority that has lamports. If no chain can run, the
// test is skipped.
func Chain(t testing.TB, slots time.Duration) (chain *localchain.Chain, authority string) {
	t.Helper()
	chain = localchaintest.Start(t, localchain.Config{
		SlotTime: slots, Programs: []localchain.Program{{ID: program.LocalID.String(), ELF: program.ELF}},
	})
	key := NewKey(t)
	if err := chain.Fund(t.Context(), key.PublicKey().String(), 100*solana.LAMPORTS_PER_SOL); err != nil {
		t.Fatal(err)
	}
	return chain, KeypairFile(t, key)
}

// KeypairFile writes a key pair in the format of the Solana command line.
func KeypairFile(t testing.TB, key solana.PrivateKey) (path string) {
	t.Helper()
	numbers := make([]int, len(key))
	for i, b := range key {
		numbers[i] = int(b)
	}
	text, err := json.Marshal(numbers)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "authority.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
