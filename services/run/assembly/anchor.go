package assembly

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/memory-ledger/ledger/anchoring/anchorer"
	stakechain "github.com/memory-ledger/ledger/anchoring/staking"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/services/core"
	"github.com/memory-ledger/ledger/services/staking"
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
		Pool: b.Pool, Log: fitting{b.follower("anchorer"), f.CheckLog, nil}, Chain: client, Authority: key, Program: id,
		MaxWait: cfg.AnchorMaxWait, MaxLeaves: cfg.AnchorMaxLeaves,
		PriorityFee: cfg.AnchorPriorityFee, MaxLamportsPerDay: cfg.AnchorMaxLamportsPerDay,
		Now: time.Now, NewID: NewID, Logger: b.Logger, Registerer: b.Registry, Turn: b.turn,
	}), nil
}

// RunAnchorer runs the anchorer alone until ctx ends.
func RunAnchorer(ctx context.Context, b *Base) error {
	f := b.newFence(fence.Options{})
	a, err := NewAnchorer(b, f)
	if err != nil {
		return err
	}
	return withOps(ctx, b, "anchorer", a.Ready, func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return f.Run(ctx) })
		group.Go(func() error { return a.Run(ctx) })
		group.Go(func() error { return watchStakes(ctx, b, f) })
		return group.Wait()
	})
}

// staking returns the core API's staking: nil without a configured mint, and in a local run
// without a chain. The anchorer records what wallets move: of the log's roles, only it may
// append facts about the chain.
func (d *APIServer) staking(ctx context.Context) (core.Staking, error) {
	if d.Config.StakeMint == "" || d.Config.SolanaRPCURL == "" {
		return nil, nil
	}
	onchain, err := d.stakeChain(ctx)
	if err != nil {
		return nil, err
	}
	return staking.New(staking.Config{
		Chain: onchain, Pool: d.Pool, MinPartialUnstake: d.Config.MinPartialUnstake,
		Maturity: d.Config.StakeMaturity, Now: time.Now, Logger: d.Logger,
	}), nil
}

// watchStakes records the changes of all owners' vaults until ctx ends. It returns at
// once if no mint is configured.
func watchStakes(ctx context.Context, b *Base, f *fence.Fence) error {
	if b.Config.StakeMint == "" {
		return nil
	}
	onchain, err := b.stakeChain(ctx)
	if err != nil {
		return err
	}
	stakechain.NewWatcher(stakechain.WatcherConfig{
		Chain: onchain, Store: staking.ReadModel{Pool: b.Pool}, Log: fitting{b.Log, f.CheckLog, nil}, Source: "/anchorer",
		Now: time.Now, NewID: NewID, Logger: b.Logger, Sweep: 30 * time.Second,
	}).Run(ctx)
	return nil
}

// stakeChain refuses a mint or a program that staking can't work with. If the chain does
// not answer, the service starts without the check: the staking routes answer 503 until
// the chain answers, and every status checks the mint again.
func (b *Base) stakeChain(ctx context.Context) (*stakechain.Chain, error) {
	client, errURL := b.Config.Chain()
	mint, program, errStake := b.Config.Stake()
	if err := errors.Join(errURL, errStake); err != nil {
		return nil, err
	}
	onchain := stakechain.NewChain(client, program, mint)
	// This is how long a service waits at its start to read its mint. The service starts even
	// if the chain is out of reach.
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := onchain.Check(ctx)
	if errors.Is(err, stakechain.ErrUnreadable) {
		b.Logger.Warn("the stake mint could not be checked yet", "err", err)
		return onchain, nil
	}
	if err != nil {
		return nil, fmt.Errorf("staking can't be turned on: %w", err)
	}
	return onchain, nil
}
