package stakes

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

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

// key is what makes a movement the same movement when it is seen again: its
// transaction, vault and direction, and how many like it came before in the
// same message. All movements of one transaction are recorded in one message,
// so a message that was recorded twice counts the same ordinals twice.
type key struct {
	signature, vault string
	direction        Direction
}

type moved struct {
	owner, signature, vault, direction, mint []string
	ordinal, position                        []int32
	amount                                   []pgtype.Numeric
	slot, seq                                []int64
	blockTime                                []time.Time
}

// Apply implements projector.Projection.
func (Projection) Apply(_ context.Context, w *projector.Writer, s projector.Slice) error {
	var rows moved
	for i := range s.Records {
		r := &s.Records[i]
		if r.Family != events.FamilyChain {
			continue
		}
		ordinals := make(map[key]int32)
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
			k := key{seen.Signature, seen.Vault, direction}
			if err := rows.add(r, e, seen, direction, ordinals[k], int32(position)); err != nil {
				return err
			}
			ordinals[k]++
		}
	}
	if len(rows.owner) == 0 {
		return nil
	}
	w.Exec(`INSERT INTO stake_movements (owner, signature, vault, direction, ordinal, mint, amount, slot, block_time, seq, position)
		SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::integer[], $6::text[], $7::numeric[], $8::bigint[], $9::timestamptz[], $10::bigint[], $11::integer[])
		ON CONFLICT (signature, vault, direction, ordinal) DO NOTHING`,
		rows.owner, rows.signature, rows.vault, rows.direction, rows.ordinal, rows.mint, rows.amount,
		rows.slot, rows.blockTime, rows.seq, rows.position)
	return nil
}

func (m *moved) add(r *projector.Record, e *events.Event, seen events.StakeDeposited, direction Direction, ordinal, position int32) error {
	amount, err := parseAmount(seen.Amount)
	if err != nil {
		return projector.Unexpected(r, e, err.Error())
	}
	m.owner, m.signature = append(m.owner, string(e.Owner)), append(m.signature, seen.Signature)
	m.vault, m.direction = append(m.vault, seen.Vault), append(m.direction, string(direction))
	m.ordinal, m.position = append(m.ordinal, ordinal), append(m.position, position)
	m.mint, m.amount = append(m.mint, seen.Mint), append(m.amount, amount)
	m.slot, m.seq = append(m.slot, int64(seen.Slot)), append(m.seq, int64(r.Seq))
	m.blockTime = append(m.blockTime, seen.BlockTime.Time())
	return nil
}
