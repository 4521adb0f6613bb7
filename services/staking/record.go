package staking

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/anchoring/staking"
	"github.com/memory-ledger/ledger/anchoring/staking/lots"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/readmodel/owners"
	"github.com/memory-ledger/ledger/projections/readmodel/stakes"
	"github.com/memory-ledger/ledger/projections/schema"
)

// ReadModel reads the recorded movements from the projections.
type ReadModel struct{ Pool *pgxpool.Pool }

var (
	_ Recorded      = ReadModel{}
	_ staking.Store = ReadModel{}
)

// Movements implements Recorded.
func (r ReadModel) Movements(ctx context.Context, owner events.Owner, vault string) ([]lots.Movement, error) {
	return movements(ctx, r.Pool, owner, vault)
}

// Load implements anchoring/staking.Store. It reads one snapshot of the read models,
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

// Owners implements anchoring/staking.Store.
func (r ReadModel) Owners(ctx context.Context, after events.Owner, limit int) ([]events.Owner, error) {
	return owners.After(ctx, r.Pool, after, limit)
}

// movements leaves out other vaults, which belong to an earlier configuration's mint or
// program.
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
