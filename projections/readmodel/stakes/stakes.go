// Package stakes is the read model of token movements into and out of owners' vaults, as
// they were read from the chain.
package stakes

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
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
	return column.All(ctx, q, "list stake movements", scan, `SELECT owner, direction, mint, vault, amount::text, signature, slot, block_time, ordinal, seq
		FROM stake_movements WHERE owner = $1 ORDER BY slot, seq, position`, string(owner))
}

func scan(row pgx.Row) (Movement, error) {
	var (
		m      Movement
		amount string
		at     time.Time
	)
	if err := row.Scan((*string)(&m.Owner), (*string)(&m.Direction), &m.Mint, &m.Vault, &amount,
		&m.Signature, &m.Slot, &at, &m.Ordinal, &m.Seq); err != nil {
		return Movement{}, err
	}
	m.BlockTime = events.At(at)
	var err error
	m.Amount, err = strconv.ParseUint(amount, 10, 64)
	return m, err
}
