package stakes

import (
	"context"
	"strconv"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/projector"
)

// Projection adds a row for each movement.
type Projection struct{}

var _ projector.Projection = Projection{}

// Name implements projector.Projection.
func (Projection) Name() string { return "stakes" }

// Tables implements projector.Projection.
func (Projection) Tables() []string { return []string{"stake_movements"} }

// key and an ordinal identify a movement that is recorded again. The key is the
// movement's transaction, vault and direction. The ordinal is the number of movements
// with the same key before it in the same message. One message records all movements of
// a transaction, so a second record of that message gives the same ordinals.
type key struct {
	signature, vault string
	direction        Direction
}

// Apply implements projector.Projection.
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
			w.Exec(`INSERT INTO stake_movements (owner, signature, vault, direction, ordinal, mint, amount, slot, block_time, seq, position)
				VALUES ($1, $2, $3, $4, $5, $6, $7::text::numeric, $8, $9, $10, $11) ON CONFLICT (signature, vault, direction, ordinal) DO NOTHING`,
				e.Owner, seen.Signature, seen.Vault, direction, ordinals[k], seen.Mint, seen.Amount, seen.Slot, seen.BlockTime.Time(), r.Seq, position)
			ordinals[k]++
		}
	}
	return nil
}
