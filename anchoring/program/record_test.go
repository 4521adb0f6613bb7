package program_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gagliardetto/solana-go"
	computebudget "github.com/gagliardetto/solana-go/programs/compute-budget"
	"github.com/gagliardetto/solana-go/programs/system"
	"github.com/gagliardetto/solana-go/rpc"
	"github.com/gagliardetto/solana-go/rpc/jsonrpc"

	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/anchoring/staking"
)

// confirmed waits for a transaction's record.
func (c *chain) confirmed(signature solana.Signature) *rpc.GetTransactionResult {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), 20*time.Second)
	defer cancel()
	version := uint64(0)
	for {
		res, err := c.rpc.GetTransaction(ctx, signature, &rpc.GetTransactionOpts{
			Encoding: solana.EncodingBase64, Commitment: rpc.CommitmentConfirmed, MaxSupportedTransactionVersion: &version,
		})
		if errors.Is(err, rpc.ErrNotFound) {
			continue
		}
		c.must(err)
		return res
	}
}

// submit signs as the payer and sends with preflight.
func (c *chain) submit(instructions ...solana.Instruction) (solana.Signature, error) {
	c.Helper()
	latest, err := c.rpc.GetLatestBlockhash(c.Context(), rpc.CommitmentProcessed)
	c.must(err)
	tx, err := solana.NewTransaction(instructions, latest.Value.Blockhash, solana.TransactionPayer(c.payer.PublicKey()))
	c.must(err)
	_, err = tx.Sign(func(solana.PublicKey) *solana.PrivateKey { return &c.payer })
	c.must(err)
	return c.rpc.SendTransactionWithOpts(c.Context(), tx, rpc.TransactionOpts{PreflightCommitment: rpc.CommitmentProcessed})
}

// The recorded fee is the payer's loss, including the priority fee.
func TestFeeIsWhatWasCharged(t *testing.T) {
	c := newChain(t)
	to := c.newWallet().PublicKey()
	signature, err := c.submit(
		computebudget.NewSetComputeUnitPriceInstruction(1_000_001).Build(),
		computebudget.NewSetComputeUnitLimitInstruction(33_333).Build(),
		system.NewTransferInstruction(1, c.payer.PublicKey(), to).Build(),
	)
	c.must(err)
	meta := c.confirmed(signature).Meta
	if paid := meta.PreBalances[0] - meta.PostBalances[0] - 1; paid != meta.Fee || meta.Fee != 5000+33_334 {
		t.Fatalf("paid %d, recorded %d", paid, meta.Fee)
	}
}

func TestTokenBalancesAreRecorded(t *testing.T) {
	s := newStaker(t, 1000)
	in, err := staking.NewStake(program.LocalID, s.mint, s.payer.PublicKey(), s.tokens, 300)
	s.must(err)
	signature, err := s.submit(in)
	s.must(err)
	res := s.confirmed(signature)
	tx, err := res.Transaction.GetTransaction()
	s.must(err)
	amounts := map[solana.PublicKey]string{}
	for _, b := range res.Meta.PostTokenBalances {
		amounts[tx.Message.AccountKeys[b.AccountIndex]] = b.UiTokenAmount.Amount
		if b.Mint != s.mint || b.UiTokenAmount.Decimals != 6 {
			t.Errorf("%+v", b)
		}
	}
	if len(amounts) != 2 || amounts[s.tokens] != "700" || amounts[s.vault] != "300" {
		t.Fatalf("after: %v", amounts)
	}
	if before := res.Meta.PreTokenBalances; len(before) != 1 || before[0].UiTokenAmount.Amount != "1000" {
		t.Fatalf("before: %v", before)
	}
	if res.BlockTime == nil || len(res.Meta.InnerInstructions) == 0 {
		t.Fatalf("%+v", res)
	}
	found, err := s.rpc.GetSignaturesForAddressWithOpts(t.Context(), s.vault, &rpc.GetSignaturesForAddressOpts{Commitment: rpc.CommitmentConfirmed})
	s.must(err)
	if len(found) != 1 || found[0].Signature != signature {
		t.Fatalf("the vault's history: %v", found)
	}
}

// A preflight refusal returns the program's error to the caller.
func TestPreflightTellsTheRefusal(t *testing.T) {
	s := newStaker(t, 1000)
	in, err := staking.NewStake(program.LocalID, s.mint, s.payer.PublicKey(), s.tokens, 1001)
	s.must(err)
	_, err = s.submit(in)
	var rpcErr *jsonrpc.RPCError
	if !errors.As(err, &rpcErr) || rpcErr.Code != -32002 {
		t.Fatalf("got %v", err)
	}
	s.refused(program.ErrInsufficient, program.TransactionError(rpcErr.Data.(map[string]any)["err"]))
}
