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
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Direction of a movement, seen from the vault.
type Direction string

const (
	Deposit    Direction = "deposit"
	Withdrawal Direction = "withdrawal"
)

// Movement is one transfer into or out of a vault.
type Movement struct {
	Direction Direction
	Vault     string
	Amount    uint64 // base units
	Signature string
	Slot      uint64
	BlockTime events.Timestamp
	// Ordinal numbers the movements of one transaction that have the same vault and
	// direction, starting at 0.
	Ordinal int
}

// List returns the owner's movements in chain order: by slot, and within one
// slot in the order in which they were recorded.
func List(ctx context.Context, q schema.Querier, owner events.Owner) ([]Movement, error) {
	return column.All(ctx, q, "list stake movements", scan, `SELECT direction, vault, amount::text, signature, slot, block_time, ordinal
		FROM stake_movements WHERE owner = $1 ORDER BY slot, seq, position`, string(owner))
}

func scan(row pgx.Row) (Movement, error) {
	var (
		m      Movement
		amount string
		at     time.Time
	)
	if err := row.Scan((*string)(&m.Direction), &m.Vault, &amount, &m.Signature, &m.Slot, &at, &m.Ordinal); err != nil {
		return Movement{}, err
	}
	m.BlockTime = events.At(at)
	var err error
	m.Amount, err = strconv.ParseUint(amount, 10, 64)
	return m, err
}

// Projection adds a row for each movement.
type Projection struct{}

func (Projection) Name() string { return "stakes" }

func (Projection) Tables() []string { return []string{"stake_movements"} }

// key and an ordinal identify a movement that is recorded again. The key is the
// movement's transaction, vault and direction. The ordinal is the number of movements
// with the same key before it in the same message. One message records all movements of
// a transaction, so a second record of that message gives the same ordinals.
type key struct {
	signature, vault string
	direction        Direction
}

func (Projection) Apply(_ context.Context, w *projector.Writer, s projector.Slice) error {
	for i := range s.Records {
		r := &s.Records[i]
		if r.Family != events.FamilyChain {
			continue
		}
		ordinals := make(map[key]int)
		for position := range r.Events {
			e := &r.Events[position]
			var seen events.StakeDeposited // both have the same members
			var direction Direction
			switch data := e.Data.(type) {
			case *events.StakeDeposited:
				seen, direction = *data, Deposit
			case *events.StakeWithdrawn:
				seen, direction = events.StakeDeposited(*data), Withdrawal
			default:
				continue
			}
			if _, err := strconv.ParseUint(seen.Amount, 10, 64); err != nil {
				return projector.Unexpected(r, e, "amount: "+err.Error())
			}
			k := key{seen.Signature, seen.Vault, direction}
			w.Exec(`INSERT INTO stake_movements (owner, signature, vault, direction, ordinal, amount, slot, block_time, seq, position)
				VALUES ($1, $2, $3, $4, $5, $6::text::numeric, $7, $8, $9, $10) ON CONFLICT (signature, vault, direction, ordinal) DO NOTHING`,
				e.Owner, seen.Signature, seen.Vault, direction, ordinals[k], seen.Amount, seen.Slot, seen.BlockTime.Time(), r.Seq, position)
			ordinals[k]++
		}
	}
	return nil
}
