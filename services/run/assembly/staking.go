package assembly

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	stakechain "github.com/memory-ledger/ledger/anchoring/staking"
	"github.com/memory-ledger/ledger/anchoring/staking/lots"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/services/core"
	"github.com/memory-ledger/ledger/services/staking"
)

const (
	// stakeSweep is the interval between checks of all vaults.
	stakeSweep = time.Minute
)

// staking returns the core API's staking and a function to run beside it. Without a
// configured mint the staking is dormant, and the function does nothing.
func (d *APIServer) staking(ctx context.Context) (core.Staking, func(context.Context), error) {
	if d.Config.StakeMint == "" {
		return core.Dormant{}, func(context.Context) {}, nil
	}
	select {
	case <-d.connected:
		return d.liveStaking(ctx)
	default:
	}
	late := &lateStaking{}
	return late, func(ctx context.Context) {
		select {
		case <-ctx.Done():
			return
		case <-d.connected:
		}
		live, run, err := d.liveStaking(ctx)
		if err != nil {
			d.Logger.Error("staking stays off", "err", err)
			return
		}
		late.live.Store(&live)
		run(ctx)
	}, nil
}

func (d *APIServer) liveStaking(ctx context.Context) (core.Staking, func(context.Context), error) {
	onchain, err := d.stakeChain(ctx)
	if err != nil {
		return nil, nil, err
	}
	least, err := strconv.ParseUint(d.Config.MinPartialUnstake, 10, 64)
	if err != nil {
		return nil, nil, fmt.Errorf("MIN_PARTIAL_UNSTAKE: %w", err)
	}
	cfg := staking.Config{
		Chain: onchain, Recorded: staking.ReadModel{Pool: d.Pool}, Notice: func(events.Owner) {},
		MinPartialUnstake: least, Maturity: d.Config.StakeMaturity, Now: time.Now, Logger: d.Logger,
	}
	if d.Config.ChainFactsBy == "anchorer" {
		// If the log tells its writers apart, only the anchorer may append facts about
		// the chain. The anchorer's sweep records changes that a status has already
		// shown.
		return staking.New(cfg), func(context.Context) {}, nil
	}
	watcher := d.stakeWatcher(onchain, d.Fence, "/core", 0)
	cfg.Notice = watcher.Notice
	return staking.New(cfg), watcher.Run, nil
}

// lateStaking is staking in a local run whose chain is not up yet. Until the chain is up,
// balances are unknown. After that, it forwards to the live staking.
type lateStaking struct{ live atomic.Pointer[core.Staking] }

// Status implements core.Staking.
func (l *lateStaking) Status(ctx context.Context, owner events.Owner) (core.StakingStatus, error) {
	if live := l.live.Load(); live != nil {
		return (*live).Status(ctx, owner)
	}
	return core.StakingStatus{}, lots.ErrBalanceUnknown
}

// Stake implements core.Staking.
func (l *lateStaking) Stake(ctx context.Context, owner events.Owner, amount string) (core.UnsignedTransaction, error) {
	if live := l.live.Load(); live != nil {
		return (*live).Stake(ctx, owner, amount)
	}
	return withoutChain(amount)
}

// Unstake implements core.Staking.
func (l *lateStaking) Unstake(ctx context.Context, owner events.Owner, amount string) (core.UnsignedTransaction, error) {
	if live := l.live.Load(); live != nil {
		return (*live).Unstake(ctx, owner, amount)
	}
	return withoutChain(amount)
}

func withoutChain(amount string) (core.UnsignedTransaction, error) {
	if _, err := lots.Parse(amount); err != nil {
		return core.UnsignedTransaction{}, err
	}
	return core.UnsignedTransaction{}, lots.ErrChainUnreadable
}

// withStakes returns a function that runs the anchorer and records stakes at the same
// time.
func withStakes(b *Base, f *fence.Fence, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return run(ctx) })
		group.Go(func() error { return watchStakes(ctx, b, f) })
		return group.Wait()
	}
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
	b.stakeWatcher(onchain, f, "/anchorer", stakeSweep).Run(ctx)
	return nil
}

func (b *Base) stakeWatcher(onchain *stakechain.Chain, f *fence.Fence, source string, sweep time.Duration) *stakechain.Watcher {
	return stakechain.NewWatcher(stakechain.WatcherConfig{
		Chain: onchain, Store: staking.ReadModel{Pool: b.Pool}, Log: fitting{b.Log, f.CheckLog, nil}, Source: source,
		Now: time.Now, NewID: NewID, Logger: b.Logger, Sweep: sweep,
	})
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
