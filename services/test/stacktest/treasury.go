package stacktest

import (
	"testing"
	"time"

	"github.com/gagliardetto/solana-go"
	associatedtokenaccount "github.com/gagliardetto/solana-go/programs/associated-token-account"
	"github.com/gagliardetto/solana-go/programs/token"

	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/infra/localchain"
	"github.com/memory-ledger/ledger/infra/localchain/localchaintest"
)

// Treasury is a chain for one test with a token mint, and the key that may mint.
type Treasury struct {
	*testing.T
	*localchain.Chain
	Key  solana.PrivateKey
	Mint solana.PublicKey
}

// NewTreasury runs a chain with a mint of a token program.
func NewTreasury(t *testing.T, tokenProgram solana.PublicKey) *Treasury {
	t.Helper()
	chain := localchaintest.Start(t, localchain.Config{Programs: []localchain.Program{{ID: program.LocalID.String(), ELF: program.ELF}}})
	return TreasuryOn(t, chain, tokenProgram)
}

// TreasuryOn puts a mint on a chain that runs.
func TreasuryOn(t *testing.T, chain *localchain.Chain, tokenProgram solana.PublicKey) *Treasury {
	t.Helper()
	y := &Treasury{T: t, Chain: chain, Key: NewKey(t)}
	y.FundWallet(y.Key.PublicKey())
	y.Mint = y.NewMint(tokenProgram)
	return y
}

// NewKey returns a fresh key pair.
func NewKey(t testing.TB) solana.PrivateKey {
	t.Helper()
	key, err := solana.NewRandomPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Must ends the test on an error.
func (y *Treasury) Must(err error) {
	y.Helper()
	if err != nil {
		y.Fatal(err)
	}
}

// FundWallet gives a wallet lamports.
func (y *Treasury) FundWallet(key solana.PublicKey) {
	y.Helper()
	y.Must(y.Fund(y.Context(), key.String(), 10*solana.LAMPORTS_PER_SOL))
}

// NewMint puts a mint with six decimals on the chain without a transaction.
func (y *Treasury) NewMint(tokenProgram solana.PublicKey) solana.PublicKey {
	y.Helper()
	data := make([]byte, 82)
	data[0] = 1 // there is a mint authority
	copy(data[4:], y.Key.PublicKey().Bytes())
	data[44], data[45] = 6, 1
	mint := NewKey(y.T).PublicKey()
	y.Must(y.Fault(y.Context(), localchaintest.SetAccount(mint.String(), solana.LAMPORTS_PER_SOL, tokenProgram.String(), data)))
	return mint
}

// SendOwn signs with the treasury's key and waits for the confirmation.
func (y *Treasury) SendOwn(instructions ...solana.Instruction) {
	y.Helper()
	var latest struct {
		Value struct{ Blockhash solana.Hash }
	}
	y.Must(y.Call(y.Context(), &latest, "getLatestBlockhash"))
	tx, err := solana.NewTransaction(instructions, latest.Value.Blockhash, solana.TransactionPayer(y.Key.PublicKey()))
	y.Must(err)
	_, err = tx.Sign(func(solana.PublicKey) *solana.PrivateKey { return &y.Key })
	y.Must(err)
	y.Land(tx)
}

// Land sends a signed transaction and waits until it is confirmed.
func (y *Treasury) Land(tx *solana.Transaction) string {
	y.Helper()
	var signature string
	y.Must(y.Call(y.Context(), &signature, "sendTransaction", tx.MustToBase64(), map[string]any{"encoding": "base64", "preflightCommitment": "confirmed"}))
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		var statuses struct {
			Value []*struct {
				Err                any
				ConfirmationStatus string
			}
		}
		y.Must(y.Call(y.Context(), &statuses, "getSignatureStatuses", []string{signature}))
		if s := statuses.Value[0]; s != nil && (s.ConfirmationStatus == "confirmed" || s.ConfirmationStatus == "finalized") {
			if s.Err != nil {
				y.Fatalf("transaction failed: %v", s.Err)
			}
			return signature
		}
	}
	y.Fatal("the transaction was not confirmed")
	return ""
}

// Give mints tokens into a wallet's associated token account. It creates the account if
// there is none.
func (y *Treasury) Give(wallet solana.PublicKey, amount uint64) solana.PublicKey {
	y.Helper()
	tokens, _, err := solana.FindAssociatedTokenAddress(wallet, y.Mint)
	y.Must(err)
	y.SendOwn(associatedtokenaccount.NewCreateIdempotentInstructionBuilder().
		SetPayer(y.Key.PublicKey()).SetWallet(wallet).SetMint(y.Mint).Build(),
		token.NewMintToInstruction(amount, y.Mint, tokens, y.Key.PublicKey(), nil).Build())
	return tokens
}

// LandFor signs a transaction as a wallet would, and lands it.
func (y *Treasury) LandFor(w Wallet, tx *solana.Transaction) string {
	y.Helper()
	message, err := tx.Message.MarshalBinary()
	y.Must(err)
	tx.Signatures = []solana.Signature{solana.Signature(w.Sign(string(message)))}
	return y.Land(tx)
}
