package program_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/gagliardetto/solana-go"
	"github.com/gagliardetto/solana-go/programs/system"
	"github.com/gagliardetto/solana-go/rpc"

	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/infra/localchain"
	"github.com/memory-ledger/ledger/infra/localchain/localchaintest"
)

// One chain serves every test of the package. Each test has its own keys.
var (
	shared    *localchain.Chain
	sharedErr error
	programs  = []localchain.Program{{ID: program.LocalID.String(), ELF: program.ELF}}
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "program-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		shared, sharedErr = localchaintest.Run(localchain.Config{
			DataDir:  dir,
			Programs: programs,
		})
		if shared != nil {
			defer func() {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				_ = shared.Stop(ctx)
			}()
		}
		return m.Run()
	}())
}

// chain is a funded payer on the shared chain.
type chain struct {
	*testing.T
	*localchain.Chain
	rpc   *rpc.Client
	payer solana.PrivateKey
}

func newChain(t *testing.T) *chain {
	t.Helper()
	t.Parallel()
	if sharedErr != nil {
		t.Fatal(sharedErr)
	}
	c := &chain{T: t, Chain: shared, rpc: rpc.New(shared.URL())}
	c.payer = c.newWallet()
	return c
}

// newWallet returns a key with ten SOL.
func (c *chain) newWallet() solana.PrivateKey {
	c.Helper()
	key := c.newKey()
	c.must(c.Fund(c.Context(), key.PublicKey().String(), 10*solana.LAMPORTS_PER_SOL))
	return key
}

func (c *chain) newKey() solana.PrivateKey {
	c.Helper()
	key, err := solana.NewRandomPrivateKey()
	c.must(err)
	return key
}

func (c *chain) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// refused fails the test unless err is want.
func (c *chain) refused(want error, err error) {
	c.Helper()
	if !errors.Is(err, want) {
		c.Fatalf("got %v, want %v", err, want)
	}
}

// send runs instructions in one transaction that the first signer pays for: first as a
// simulation, then for real. Both runs must have the same outcome. It returns the compute
// units used and the error.
func (c *chain) send(signers []solana.PrivateKey, instructions ...solana.Instruction) (uint64, error) {
	c.Helper()
	ctx := c.Context()
	latest, err := c.rpc.GetLatestBlockhash(ctx, rpc.CommitmentProcessed)
	c.must(err)
	tx, err := solana.NewTransaction(instructions, latest.Value.Blockhash, solana.TransactionPayer(signers[0].PublicKey()))
	c.must(err)
	_, err = tx.Sign(func(key solana.PublicKey) *solana.PrivateKey {
		for i := range signers {
			if signers[i].PublicKey() == key {
				return &signers[i]
			}
		}
		return nil
	})
	c.must(err)
	dry, err := c.rpc.SimulateTransactionWithOpts(ctx, tx, &rpc.SimulateTransactionOpts{SigVerify: true, Commitment: rpc.CommitmentProcessed})
	c.must(err)
	simulated := program.TransactionError(dry.Value.Err)

	signature, err := c.rpc.SendTransactionWithOpts(ctx, tx, rpc.TransactionOpts{SkipPreflight: true})
	c.must(err)
	statuses, err := c.rpc.GetSignatureStatuses(ctx, false, signature)
	c.must(err)
	if statuses.Value[0] == nil {
		c.Fatalf("transaction did not land; simulated: %v, logs: %q", simulated, dry.Value.Logs)
	}
	landed := program.TransactionError(statuses.Value[0].Err)
	if fmt.Sprint(simulated) != fmt.Sprint(landed) {
		c.Fatalf("simulated %v, landed %v", simulated, landed)
	}
	var units uint64
	if dry.Value.UnitsConsumed != nil {
		units = *dry.Value.UnitsConsumed
	}
	return units, landed
}

// account returns an account's data, lamports and owner. The data is nil if the account
// does not exist.
func (c *chain) account(key solana.PublicKey) (data []byte, lamports uint64, owner solana.PublicKey) {
	c.Helper()
	res, err := c.rpc.GetAccountInfoWithOpts(c.Context(), key, &rpc.GetAccountInfoOpts{
		Encoding: solana.EncodingBase64, Commitment: rpc.CommitmentProcessed,
	})
	if errors.Is(err, rpc.ErrNotFound) {
		return nil, 0, solana.PublicKey{}
	}
	c.must(err)
	return res.Value.Data.GetBinary(), res.Value.Lamports, res.Value.Owner
}

// put overwrites an account with a fault of the local chain.
func (c *chain) put(key, owner solana.PublicKey, data []byte) {
	c.Helper()
	c.must(c.Fault(c.Context(), localchaintest.SetAccount(key.String(), solana.LAMPORTS_PER_SOL, owner.String(), data)))
}

func (c *chain) transfer(from solana.PrivateKey, to solana.PublicKey, lamports uint64) {
	c.Helper()
	c.must(errorOf(c.send([]solana.PrivateKey{from}, system.NewTransferInstruction(lamports, from.PublicKey(), to).Build())))
}

// parts are an instruction's accounts and data, for a test to change.
type parts struct {
	metas []*solana.AccountMeta
	data  []byte
}

// edit returns an instruction with its accounts or data changed.
func edit(in solana.Instruction, change func(in *parts)) solana.Instruction {
	data, err := in.Data()
	if err != nil {
		panic(err)
	}
	changed := &parts{data: slices.Clone(data)}
	for _, m := range in.Accounts() {
		copied := *m
		changed.metas = append(changed.metas, &copied)
	}
	change(changed)
	return solana.NewInstruction(in.ProgramID(), solana.AccountMetaSlice(changed.metas), changed.data)
}

func b64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
