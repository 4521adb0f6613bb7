// Package staking implements the core API's live staking routes. It reads a wallet's
// vault as lots with maturity clocks, and builds the transactions that fill and empty the
// vault. It holds no key: the wallet signs and sends.
package staking

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/gagliardetto/solana-go"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/staking"
	"github.com/memory-ledger/ledger/anchoring/staking/lots"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/tracing"
	"github.com/memory-ledger/ledger/projections/readmodel/owners"
	"github.com/memory-ledger/ledger/projections/readmodel/stakes"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/core"
)

// patience bounds how long one request waits for the chain.
const patience = 8 * time.Second

type Config struct {
	Chain             *staking.Chain
	Pool              *pgxpool.Pool
	MinPartialUnstake uint64
	Maturity          time.Duration
	Now               func() time.Time
	Logger            *slog.Logger
}

type Service struct{ cfg Config }

func New(cfg Config) *Service { return &Service{cfg} }

// Status implements core.Staking. The amounts are the chain's current amounts. The log
// and the vault's newest transactions only tell how old the amounts are.
func (s *Service) Status(ctx context.Context, owner events.Owner) (core.StakingStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	vault := s.cfg.Chain.VaultOf(owner)
	// These may be old: later movements are read from the chain.
	recorded, err := movements(ctx, s.cfg.Pool, owner, vault.String())
	if err != nil {
		return core.StakingStatus{}, err
	}
	holdings, err := s.cfg.Chain.Holdings(ctx, owner)
	if err != nil {
		return core.StakingStatus{}, refusal(err, lots.ErrBalanceUnknown)
	}
	// If a transaction lands between the two reads, they disagree until the next status.
	movements, all := s.unrecorded(ctx, vault, recorded)
	position := lots.At(movements, holdings.Staked, s.cfg.Now(), s.cfg.Maturity)
	position.Reconciled = position.Reconciled && all
	return s.status(holdings, position), nil
}

// unrecorded returns the recorded movements and the vault's later ones, and whether they
// are known to be complete. If the chain can't be read, it returns only the recorded
// movements. The balance then decides how much of them still counts.
func (s *Service) unrecorded(ctx context.Context, vault solana.PublicKey, recorded []lots.Movement) ([]lots.Movement, bool) {
	after := ""
	if ordered := lots.Order(recorded); len(ordered) > 0 {
		after = ordered[len(ordered)-1].Signature
	}
	// This bounds the transactions that a status reads from the chain because the log does
	// not hold them yet.
	history, err := s.cfg.Chain.History(ctx, vault, after, 32, chain.Confirmed, among(recorded))
	if err != nil {
		tracing.Log(ctx, s.cfg.Logger).Warn("vault's transactions could not be read", "vault", vault, "err", err)
		return recorded, false
	}
	return slices.Concat(recorded, history.Movements), history.Complete
}

func among(recorded []lots.Movement) func(string) bool {
	known := make(map[string]bool, len(recorded))
	for _, m := range recorded {
		known[m.Signature] = true
	}
	return func(signature string) bool { return known[signature] }
}

func (s *Service) status(h staking.Holdings, p lots.Position) core.StakingStatus {
	mint, vault := s.cfg.Chain.Mint(), h.Vault.String()
	status := core.StakingStatus{
		Live: true, Mint: &mint, Decimals: h.Decimals,
		Staked: units(h.Staked), Mature: units(p.Mature), Cooling: units(p.Cooling),
		NextMatureAt: p.NextMatureAt, Lots: make([]core.Lot, len(p.Lots)), Vault: &vault,
		WalletBalance: units(h.WalletBalance), MinPartialUnstake: units(s.cfg.MinPartialUnstake),
		MaturityMs: s.cfg.Maturity.Milliseconds(), Reconciled: p.Reconciled,
	}
	for i, l := range p.Lots {
		lot := core.Lot{Amount: units(l.Amount), DepositedAt: l.DepositedAt, MaturesAt: l.MaturesAt, Mature: l.Mature}
		if l.Signature != "" {
			lot.TxSignature = &l.Signature
		}
		status.Lots[i] = lot
	}
	return status
}

// Stake implements core.Staking. It does not check the wallet's balance: the token
// program does, when the transaction is simulated and when it lands.
func (s *Service) Stake(ctx context.Context, owner events.Owner, text string) (core.UnsignedTransaction, error) {
	amount, err := lots.Parse(text)
	if err != nil {
		return core.UnsignedTransaction{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tx, err := s.cfg.Chain.StakeTransaction(ctx, owner, amount)
	return hand(tx, err)
}

func (s *Service) Unstake(ctx context.Context, owner events.Owner, text string) (core.UnsignedTransaction, error) {
	amount, err := lots.Parse(text)
	if err != nil {
		return core.UnsignedTransaction{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	holdings, err := s.cfg.Chain.Holdings(ctx, owner)
	if err != nil {
		return core.UnsignedTransaction{}, refusal(err, lots.ErrBalanceUnknown)
	}
	if err := lots.Unstake(amount, holdings.Staked, s.cfg.MinPartialUnstake); err != nil {
		return core.UnsignedTransaction{}, err
	}
	tx, err := s.cfg.Chain.UnstakeTransaction(ctx, owner, amount)
	return hand(tx, err)
}

func hand(tx staking.Unsigned, err error) (core.UnsignedTransaction, error) {
	if err != nil {
		return core.UnsignedTransaction{}, refusal(err, lots.ErrChainUnreadable)
	}
	return core.UnsignedTransaction{
		Transaction: base64.StdEncoding.EncodeToString(tx.Wire),
		Blockhash:   tx.Blockhash, LastValidBlockHeight: tx.LastValidBlockHeight,
	}, nil
}

// refusal wraps an unreadable chain in the error to show to the client. It returns other
// errors unchanged.
func refusal(err, shown error) error {
	if !errors.Is(err, staking.ErrUnreadable) {
		return err
	}
	return fmt.Errorf("%w (%w)", shown, err)
}

func units(n uint64) string { return strconv.FormatUint(n, 10) }

// ReadModel implements anchoring/staking.Store with the projections.
type ReadModel struct{ Pool *pgxpool.Pool }

// Load reads one snapshot of the read models,
// which is one position of the projection, so that the sequence and the movements fit
// together. If the sequence were newer than the movements, movements would be recorded
// again.
func (r ReadModel) Load(ctx context.Context, owner events.Owner, vault string) (record staking.Record, err error) {
	err = schema.Snapshot(ctx, r.Pool, func(tx pgx.Tx) error {
		o, _, err := owners.Find(ctx, tx, owner)
		if err != nil {
			return err
		}
		record = staking.Record{Seq: o.ChainLastSeq, Version: int(o.ChainVersion)}
		record.Movements, err = movements(ctx, tx, owner, vault)
		return err
	})
	if err != nil {
		return staking.Record{}, fmt.Errorf("load stakes of %s: %w", owner, err)
	}
	return record, nil
}

func (r ReadModel) Owners(ctx context.Context, after events.Owner, limit int) ([]events.Owner, error) {
	return owners.After(ctx, r.Pool, after, limit)
}

// movements returns the recorded movements of a vault. It leaves out other vaults, which
// belong to an earlier configuration's mint or program.
func movements(ctx context.Context, q schema.Querier, owner events.Owner, vault string) ([]lots.Movement, error) {
	list, err := stakes.List(ctx, q, owner)
	if err != nil {
		return nil, err
	}
	var found []lots.Movement
	for _, m := range list {
		if m.Vault == vault {
			found = append(found, lots.Movement{
				Deposit: m.Direction == stakes.Deposit, Amount: m.Amount, Signature: m.Signature,
				Ordinal: m.Ordinal, Slot: m.Slot, At: m.BlockTime,
			})
		}
	}
	return found, nil
}
