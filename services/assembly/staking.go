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
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/core"
	"github.com/memory-ledger/ledger/services/staking"
	"github.com/memory-ledger/ledger/services/staking/rules"
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
	if d.Config.SolanaRPCURL == "" {
		d.Logger.Warn("staking is configured, and there is no chain")
		return noChain{}, func(context.Context) {}, nil
	}
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
	if d.Config.NATSCreds != "" {
		// A log that knows its writers apart lets only the anchorer state facts
		// about the chain. Its sweep records what a status has shown already.
		return staking.New(cfg), func(context.Context) {}, nil
	}
	watcher := d.stakeWatcher(onchain, "/core", 0)
	cfg.Notice = watcher.Notice
	return staking.New(cfg), watcher.Run, nil
}

// noChain is staking in a local run that got no chain: not dormant, and with
// nothing known.
type noChain struct{}

func (noChain) Status(context.Context, events.Owner) (core.StakingStatus, error) {
	return core.StakingStatus{}, rules.ErrBalanceUnknown
}

func (noChain) Stake(_ context.Context, _ events.Owner, amount string) (core.UnsignedTransaction, error) {
	if _, err := rules.Parse(amount); err != nil {
		return core.UnsignedTransaction{}, err
	}
	return core.UnsignedTransaction{}, rules.ErrChainUnreadable
}

func (n noChain) Unstake(ctx context.Context, owner events.Owner, amount string) (core.UnsignedTransaction, error) {
	return n.Stake(ctx, owner, amount)
}

// WatchStakes records what all owners' vaults go through until ctx ends. It
// returns at once where no mint is configured, or no chain.
func WatchStakes(ctx context.Context, b *Base) error {
	if b.Config.StakeMint == "" || b.Config.SolanaRPCURL == "" {
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
