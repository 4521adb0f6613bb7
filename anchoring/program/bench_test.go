package program_test

import (
	"encoding/binary"
	"testing"

	"github.com/gagliardetto/solana-go"
	computebudget "github.com/gagliardetto/solana-go/programs/compute-budget"
	"github.com/gagliardetto/solana-go/rpc"

	"github.com/memory-ledger/ledger/anchoring/commitment"
	"github.com/memory-ledger/ledger/anchoring/program"
)

// packed is how many commits fit in a transaction along with the compute budget.
const packed = 8

// BenchmarkCommit sends packed transactions through JSON-RPC and reports the cost per
// owner: when the account is created, rent included, and when it moves forward.
func BenchmarkCommit(b *testing.B) {
	if sharedErr != nil {
		b.Skip(sharedErr)
	}
	for _, round := range []struct {
		name string
		grow bool // commit to the same owners repeatedly
	}{{"create", false}, {"update", true}} {
		b.Run(round.name, func(b *testing.B) {
			client := rpc.New(shared.URL())
			payer, err := solana.NewRandomPrivateKey()
			if err != nil {
				b.Fatal(err)
			}
			if err := shared.Fund(b.Context(), payer.PublicKey().String(), 1000*solana.LAMPORTS_PER_SOL); err != nil {
				b.Fatal(err)
			}
			n := uint64(0)
			if round.grow {
				sendPacked(b, client, payer, 0, 1)
				n++
			}
			first, before := lamports(b, client, payer), n
			for b.Loop() {
				owners := n * packed
				if round.grow {
					owners = 0
				}
				sendPacked(b, client, payer, owners, n+1)
				n++
			}
			b.StopTimer()
			owners := float64((n - before) * packed)
			b.ReportMetric(float64(first-lamports(b, client, payer))/owners, "lamports/owner")
			b.ReportMetric(owners/b.Elapsed().Seconds(), "owners/s")
		})
	}
}

func lamports(b *testing.B, client *rpc.Client, key solana.PrivateKey) uint64 {
	b.Helper()
	res, err := client.GetBalance(b.Context(), key.PublicKey(), rpc.CommitmentProcessed)
	if err != nil {
		b.Fatal(err)
	}
	return res.Value
}

func sendPacked(b *testing.B, client *rpc.Client, payer solana.PrivateKey, firstOwner, size uint64) {
	b.Helper()
	instructions := []solana.Instruction{
		computebudget.NewSetComputeUnitLimitInstruction(400_000).Build(),
		computebudget.NewSetComputeUnitPriceInstruction(0).Build(),
	}
	for i := range uint64(packed) {
		c := commitment.Commit{Size: size, Root: root("bench")}
		binary.LittleEndian.PutUint64(c.Owner[:], firstOwner+i+1)
		in, err := commitment.NewInstruction(program.LocalID, payer.PublicKey(), c)
		if err != nil {
			b.Fatal(err)
		}
		instructions = append(instructions, in)
	}
	latest, err := client.GetLatestBlockhash(b.Context(), rpc.CommitmentProcessed)
	if err != nil {
		b.Fatal(err)
	}
	tx, err := solana.NewTransaction(instructions, latest.Value.Blockhash, solana.TransactionPayer(payer.PublicKey()))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := tx.Sign(func(solana.PublicKey) *solana.PrivateKey { return &payer }); err != nil {
		b.Fatal(err)
	}
	if _, err := client.SendTransactionWithOpts(b.Context(), tx, rpc.TransactionOpts{PreflightCommitment: rpc.CommitmentProcessed}); err != nil {
		b.Fatal(err)
	}
}
