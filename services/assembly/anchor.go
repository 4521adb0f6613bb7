package assembly

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/anchorer"
	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/partition"
)

// NewAnchorer returns the anchorer of the configured chain.
func NewAnchorer(b *Base) (*anchorer.Anchorer, error) {
	cfg := b.Config
	client, errURL := chain.New(cfg.SolanaRPCURL)
	if errURL != nil {
		errURL = fmt.Errorf("SOLANA_RPC_URL: %w", errURL)
	}
	key, errKey := authorityKey(cfg.AuthorityKeypair)
	id, errID := programID(cfg.CommitmentProgramID)
	partitions, errPartitions := partition.Parse(cfg.AnchorPartitions)
	if err := errors.Join(errURL, errKey, errID, errPartitions); err != nil {
		return nil, err
	}
	var log eventlog.Log = b.Log
	if consumer := cfg.AnchorerConsumer; consumer != "" {
		log = b.Log.Durable(consumer)
	}
	return anchorer.New(anchorer.Config{
		Pool: b.Pool, Log: log, Chain: client, Authority: key, Program: id,
		Partitions: partitions, MaxWait: cfg.AnchorMaxWait, MaxLeaves: cfg.AnchorMaxLeaves,
		PriorityFee: cfg.AnchorPriorityFee, MaxLamportsPerDay: cfg.AnchorMaxLamportsPerDay,
		Commitment: chain.Commitment(cfg.AnchorCommitment),
		Now:        time.Now, NewID: NewID, Logger: b.Logger, Registerer: b.Registry, Tracer: b.Traces.Tracer("anchorer"),
	})
}

// authorityKey reads a key pair file and makes sure that its halves belong
// together: a signature by one half would verify under no key.
func authorityKey(path string) (solana.PrivateKey, error) {
	key, err := solana.PrivateKeyFromSolanaKeygenFile(path)
	if err != nil {
		return nil, fmt.Errorf("AUTHORITY_KEYPAIR: cannot read a Solana key pair from %s", path)
	}
	if len(key) != ed25519.PrivateKeySize || !ed25519.NewKeyFromSeed(key[:ed25519.SeedSize]).Equal(ed25519.PrivateKey(key)) {
		return nil, fmt.Errorf("AUTHORITY_KEYPAIR: the halves of the key pair in %s do not belong together", path)
	}
	return key, nil
}

func programID(text string) (solana.PublicKey, error) {
	const longest = 44 // decoding takes time that grows with the square of the length
	if len(text) <= longest {
		if id, err := solana.PublicKeyFromBase58(text); err == nil {
			return id, nil
		}
	}
	return solana.PublicKey{}, errors.New("COMMITMENT_PROGRAM_ID: not a base58 address")
}

// RunAnchorer runs the anchorer alone until ctx ends.
func RunAnchorer(ctx context.Context, b *Base) error {
	a, err := NewAnchorer(b)
	if err != nil {
		return err
	}
	return withOps(ctx, b, "anchorer", a.Ready, withStakes(b, a.Run))
}
