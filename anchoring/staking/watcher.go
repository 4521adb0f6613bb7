package staking

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/staking/lots"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

// Record is the recorded state of an owner: the vault's movements, and the position of
// the owner's chain family.
type Record struct {
	Seq       uint64 // of the owner's newest message in the family
	Version   int    // of that message
	Movements []lots.Movement
}

// Store is the read model that the watcher starts from. It may lag behind the log. The
// watcher reads the tail.
type Store interface {
	Load(ctx context.Context, owner events.Owner, vault string) (Record, error)
	// Owners returns at most limit owners that follow after, in a fixed order.
	Owners(ctx context.Context, after events.Owner, limit int) ([]events.Owner, error)
}

// Log is the part of the log that the watcher needs.
type Log interface {
	eventlog.Appender
	eventlog.NewestReader
	OwnerTail(ctx context.Context, f events.Family, o events.Owner, after uint64, yield func(eventlog.Record) error) error
}

type WatcherConfig struct {
	Chain  *Chain
	Store  Store
	Log    Log
	Source string // CloudEvents source
	Now    func() time.Time
	NewID  func() string
	Logger *slog.Logger
	Sweep  time.Duration // the interval at which the vaults of all owners are read
}

// Watcher records the movements of vaults as StakeDeposited and StakeWithdrawn. It
// records only finalized movements, so no recorded event is ever undone. Any number of
// watchers may run: the owner's expected version lets only one of them record a movement,
// and the read model counts each movement once.
type Watcher struct {
	cfg   WatcherConfig
	swept events.Owner // the owner up to whom the present sweep came; only Run uses it
}

func NewWatcher(cfg WatcherConfig) *Watcher { return &Watcher{cfg: cfg} }

// Run watches until ctx ends. Errors are logged, and the work is tried again.
func (w *Watcher) Run(ctx context.Context) {
	ticker := time.NewTicker(w.cfg.Sweep)
	defer ticker.Stop()
	for {
		w.sweep(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// sweep looks at the vaults of all owners who have one. After a failure the next sweep goes
// on at the same owners.
func (w *Watcher) sweep(ctx context.Context) {
	for ctx.Err() == nil {
		owners, err := w.cfg.Store.Owners(ctx, w.swept, chain.MaxAccounts)
		if err != nil {
			w.complain(ctx, "list owners", err)
			return
		}
		if len(owners) == 0 {
			w.swept = ""
			return
		}
		there, err := w.cfg.Chain.Vaults(ctx, owners)
		if err != nil {
			w.complain(ctx, "look for vaults", err)
			return
		}
		var staking []events.Owner
		for i, owner := range owners {
			if there[i] {
				staking = append(staking, owner)
			}
		}
		w.each(ctx, staking)
		w.swept = owners[len(owners)-1]
	}
}

// each looks at the vaults of owners. It logs one line for all that fail: if the chain is
// out of reach, they all do, every few seconds.
func (w *Watcher) each(ctx context.Context, owners []events.Owner) {
	var group errgroup.Group
	group.SetLimit(4)
	var failed atomic.Int64
	for _, owner := range owners {
		group.Go(func() error {
			err := w.Look(ctx, owner)
			if err != nil {
				failed.Add(1)
				err = fmt.Errorf("vault of %s: %w", owner, err)
			}
			return err
		})
	}
	err := group.Wait()
	w.complain(ctx, fmt.Sprintf("look at vaults, %d of %d failed, one of them", failed.Load(), len(owners)), err)
}

func (w *Watcher) complain(ctx context.Context, doing string, err error) {
	if err != nil && ctx.Err() == nil {
		w.cfg.Logger.Warn("stakes: "+doing, "err", err)
	}
}

// Look records the movements of the owner's vault that are not recorded yet. It reads the
// vault's whole history, because a node that lags may have omitted some before. A crash
// before the append leaves nothing behind. A crash after it leaves all: the movements of a
// look are one message.
func (w *Watcher) Look(ctx context.Context, owner events.Owner) error {
	vault := w.cfg.Chain.VaultOf(owner)
	// This is how often a look retries because another process appended for the owner
	// meanwhile.
	for range 5 {
		record, known, err := w.recorded(ctx, owner, vault.String())
		if err != nil {
			return err
		}
		// This bounds the transactions of one look, and so the events of one message.
		history, err := w.cfg.Chain.History(ctx, vault, "", 64, chain.Finalized, func(s string) bool { return known[s] })
		if err != nil || len(history.Movements) == 0 {
			return err
		}
		if _, _, err := eventlog.Confirm(ctx, w.cfg.Log, events.FamilyChain, owner, record.Seq, record.Version); err != nil {
			return err
		}
		err = w.append(ctx, owner, vault.String(), record, history.Movements)
		if !errors.Is(err, eventlog.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("record stakes: %w", eventlog.ErrConflict)
}

// recorded returns the read model's record, advanced by the log's tail after it, and the
// signatures of all recorded movements.
func (w *Watcher) recorded(ctx context.Context, owner events.Owner, vault string) (Record, map[string]bool, error) {
	record, err := w.cfg.Store.Load(ctx, owner, vault)
	if err != nil {
		return Record{}, nil, err
	}
	known := make(map[string]bool, len(record.Movements))
	for _, m := range record.Movements {
		known[m.Signature] = true
	}
	err = w.cfg.Log.OwnerTail(ctx, events.FamilyChain, owner, record.Seq, func(r eventlog.Record) error {
		batch, err := events.DecodeBatch(r.Payload)
		if err != nil {
			return fmt.Errorf("sequence %d: %w", r.Seq, err)
		}
		record.Seq, record.Version = r.Seq, batch[0].OwnerVersion
		for i := range batch {
			switch data := batch[i].Data.(type) {
			case *events.StakeDeposited:
				known[data.Signature] = known[data.Signature] || data.Vault == vault
			case *events.StakeWithdrawn:
				known[data.Signature] = known[data.Signature] || data.Vault == vault
			}
		}
		return nil
	})
	return record, known, err
}

func (w *Watcher) append(ctx context.Context, owner events.Owner, vault string, record Record, movements []lots.Movement) error {
	commandID := w.cfg.NewID()
	batch := make([]events.Event, len(movements))
	for i, m := range movements {
		seen := events.StakeDeposited{
			Mint: w.cfg.Chain.Mint(), Vault: vault, Amount: strconv.FormatUint(m.Amount, 10),
			Signature: m.Signature, Slot: m.Slot, BlockTime: m.At,
		}
		batch[i] = events.Event{
			ID: w.cfg.NewID(), Source: w.cfg.Source, Owner: owner, Time: events.At(w.cfg.Now()),
			OwnerVersion: record.Version + 1, CommandID: commandID, Data: &seen,
		}
		if !m.Deposit {
			batch[i].Data = new(events.StakeWithdrawn(seen))
		}
	}
	payload, err := events.EncodeBatch(batch)
	if err != nil {
		return fmt.Errorf("encode stakes: %w", err)
	}
	_, err = w.cfg.Log.Append(ctx, eventlog.Append{
		Family: events.FamilyChain, Owner: owner, Kind: events.KindStake,
		CommandID: commandID, Expected: record.Seq, Payload: payload,
	})
	return err
}
