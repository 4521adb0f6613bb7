package assembly

import (
	"context"
	"errors"
	"time"

	"github.com/memory-ledger/ledger/anchoring/anchorer"
	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/events/partition"
)

// NewAnchorer returns the anchorer of the configured chain.
func NewAnchorer(b *Base) (*anchorer.Anchorer, error) {
	cfg := b.Config
	client, errURL := cfg.Chain()
	key, errKey := cfg.Authority()
	id, errID := cfg.Program()
	partitions, errPartitions := partition.Parse(cfg.AnchorPartitions)
	if err := errors.Join(errURL, errKey, errID, errPartitions); err != nil {
		return nil, err
	}
	return anchorer.New(anchorer.Config{
		Pool: b.Pool, Log: follower(b.Log, "ANCHORER_CONSUMER", cfg.AnchorerConsumer), Chain: client, Authority: key, Program: id,
		Partitions: partitions, MaxWait: cfg.AnchorMaxWait, MaxLeaves: cfg.AnchorMaxLeaves,
		PriorityFee: cfg.AnchorPriorityFee, MaxLamportsPerDay: cfg.AnchorMaxLamportsPerDay,
		Commitment: chain.Commitment(cfg.AnchorCommitment),
		Now:        time.Now, NewID: NewID, Logger: b.Logger, Registerer: b.Registry, Tracer: b.Traces.Tracer("anchorer"),
	})
}

// RunAnchorer runs the anchorer alone until ctx ends.
func RunAnchorer(ctx context.Context, b *Base) error {
	a, err := NewAnchorer(b)
	if err != nil {
		return err
	}
	return withOps(ctx, b, "anchorer", a.Ready, withStakes(b, a.Run))
}
