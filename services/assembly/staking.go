package assembly

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/chain"
	stakechain "github.com/memory-ledger/ledger/anchoring/staking"
	"github.com/memory-ledger/ledger/services/core"
	"github.com/memory-ledger/ledger/services/staking"
)

const (
	// stakeSweep is how often all vaults are looked at.
	stakeSweep = time.Minute
	// mintPatience is how long a service waits at its start to see its mint. A
	// chain that is out of reach keeps nobody from starting.
	mintPatience = 5 * time.Second
)

// staking returns the core API's staking, and what has to run beside it: the
// dormant one and nothing where no mint is configured.
func (d *Deciding) staking(ctx context.Context) (core.Staking, func(context.Context), error) {
	if d.Config.StakeMint == "" {
		return core.Dormant{}, func(context.Context) {}, nil
	}
	onchain, err := d.stakeChain(ctx)
	if err != nil {
		return nil, nil, err
	}
	least, err := strconv.ParseUint(d.Config.MinPartialUnstake, 10, 64)
	if err != nil {
		return nil, nil, fmt.Errorf("MIN_PARTIAL_UNSTAKE: %w", err)
	}
	watcher := d.stakeWatcher(onchain, "/core", 0)
	return staking.New(staking.Config{
		Chain: onchain, Recorded: staking.ReadModel{Pool: d.Pool}, Notice: watcher.Notice,
		MinPartialUnstake: least, Maturity: d.Config.StakeMaturity, Now: time.Now, Logger: d.Logger,
	}), watcher.Run, nil
}

// WatchStakes records what all owners' vaults go through until ctx ends. It
// returns at once where no mint is configured.
func WatchStakes(ctx context.Context, b *Base) error {
	if b.Config.StakeMint == "" {
		return nil
	}
	onchain, err := b.stakeChain(ctx)
	if err != nil {
		return err
	}
	b.stakeWatcher(onchain, "/anchorer", stakeSweep).Run(ctx)
	return nil
}

func (b *Base) stakeWatcher(onchain *stakechain.Chain, source string, sweep time.Duration) *stakechain.Watcher {
	return stakechain.NewWatcher(stakechain.WatcherConfig{
		Chain: onchain, Store: staking.ReadModel{Pool: b.Pool}, Log: b.Log, Source: source,
		Now: time.Now, NewID: NewID, Logger: b.Logger, Sweep: sweep,
	})
}

// stakeChain refuses a mint or a program that staking can't work with. A chain
// that does not answer is no reason to stay down: its routes answer 503 until
// it does, and every status looks at the mint again.
func (b *Base) stakeChain(ctx context.Context) (*stakechain.Chain, error) {
	client, errURL := chain.New(b.Config.SolanaRPCURL)
	if errURL != nil {
		errURL = fmt.Errorf("staking needs SOLANA_RPC_URL: %w", errURL)
	}
	mint, errMint := address("STAKE_MINT", b.Config.StakeMint)
	program, errProgram := address("STAKING_PROGRAM_ID", b.Config.StakingProgramID)
	if err := errors.Join(errURL, errMint, errProgram); err != nil {
		return nil, err
	}
	onchain := stakechain.NewChain(client, program, mint)
	ctx, cancel := context.WithTimeout(ctx, mintPatience)
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

// address reads a base58 address of the configuration.
func address(name, text string) (solana.PublicKey, error) {
	const longest = 44 // decoding takes time that grows with the square of the length
	if len(text) <= longest {
		if key, err := solana.PublicKeyFromBase58(text); err == nil {
			return key, nil
		}
	}
	return solana.PublicKey{}, fmt.Errorf("%s: not a base58 address", name)
}
