package assembly

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/memory-ledger/ledger/anchoring/anchorer"
	"github.com/memory-ledger/ledger/projections/fence"
)

// NewAnchorer returns the anchorer of the configured chain. It appends nothing to a log that
// the fence finds too short.
func NewAnchorer(b *Base, f *fence.Fence) (*anchorer.Anchorer, error) {
	cfg := b.Config
	client, errURL := cfg.Chain()
	key, errKey := cfg.Authority()
	id, errID := cfg.Program()
	if err := errors.Join(errURL, errKey, errID); err != nil {
		return nil, err
	}
	return anchorer.New(anchorer.Config{
		Pool: b.Pool, Log: fitting{b.follower("anchorer"), f.CheckLog, nil}, Lag: b.Stream.Lag(), Chain: client, Authority: key, Program: id,
		MaxWait: cfg.AnchorMaxWait, MaxLeaves: cfg.AnchorMaxLeaves,
		PriorityFee: cfg.AnchorPriorityFee, MaxLamportsPerDay: cfg.AnchorMaxLamportsPerDay,
		Now: time.Now, NewID: NewID, Logger: b.Logger, Registerer: b.Registry, Turn: b.turn,
	})
}

// RunAnchorer runs the anchorer alone until ctx ends.
func RunAnchorer(ctx context.Context, b *Base) error {
	f, err := b.newFence(fence.Options{})
	if err != nil {
		return err
	}
	a, err := NewAnchorer(b, f)
	if err != nil {
		return err
	}
	run := withStakes(b, f, a.Run)
	return withOps(ctx, b, "anchorer", a.Ready, func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return f.Run(ctx) })
		group.Go(func() error { return run(ctx) })
		return group.Wait()
	})
}
