// Package stakes is the read model of token movements into and out of owners' vaults, as
// they were read from the chain.
package stakes

import (
	"context"
	"fmt"
	"math/big"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Direction of a movement, seen from the vault.
type Direction string

// The directions.
const (
	Deposit    Direction = "deposit"
	Withdrawal Direction = "withdrawal"
)

// Movement is one transfer into or out of a vault.
type Movement struct {
	Owner     events.Owner
	Direction Direction
	Mint      string
	Vault     string
	Amount    uint64 // base units
	Signature string
	Slot      uint64
	BlockTime events.Timestamp
	// Ordinal numbers the movements of one transaction that have the same vault and
	// direction, starting at 0.
	Ordinal int
	Seq     uint64
}

// List returns the owner's movements in chain order: by slot, and within one
// slot in the order in which they were recorded.
func List(ctx context.Context, q schema.Querier, owner events.Owner) ([]Movement, error) {
	rows, err := q.Query(ctx, `SELECT owner, direction, mint, vault, amount, signature, slot, block_time, ordinal, seq
		FROM stake_movements WHERE owner = $1 ORDER BY slot, seq, position`, string(owner))
	if err != nil {
		return nil, fmt.Errorf("list stake movements: %w", err)
	}
	list, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("list stake movements: %w", err)
	}
	return list, nil
}

func scan(row pgx.CollectableRow) (Movement, error) {
	var (
		m      Movement
		amount pgtype.Numeric
		at     time.Time
	)
	if err := row.Scan((*string)(&m.Owner), (*string)(&m.Direction), &m.Mint, &m.Vault, &amount,
		&m.Signature, &m.Slot, &at, &m.Ordinal, &m.Seq); err != nil {
		return Movement{}, err
	}
	units := new(big.Int).Mul(amount.Int, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(amount.Exp)), nil))
	if !units.IsUint64() {
		return Movement{}, fmt.Errorf("amount %s is not a u64", units)
	}
	m.Amount, m.BlockTime = units.Uint64(), events.At(at)
	return m, nil
}

// parseAmount reads base units: the decimal form of a u64.
func parseAmount(s string) (pgtype.Numeric, error) {
	units, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return pgtype.Numeric{}, fmt.Errorf("amount: %w", err)
	}
	return pgtype.Numeric{Int: new(big.Int).SetUint64(units), Valid: true}, nil
}
