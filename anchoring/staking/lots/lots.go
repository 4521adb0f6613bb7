// Package lots is the arithmetic of staking. From a vault's movements, its balance and
// the time, it computes lots with maturity clocks. It also decides which texts are
// amounts, and which amounts may be withdrawn. It is pure: no chain, no clock, no
// storage.
package lots

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/memory-ledger/ledger/events"
)

// Movement is one transaction's effect on a vault.
type Movement struct {
	Deposit   bool // false: a withdrawal
	Amount    uint64
	Signature string
	Ordinal   int // distinguishes movements of one transaction and direction
	Slot      uint64
	At        events.Timestamp
}

// Lot is the part of a deposit that withdrawals left.
type Lot struct {
	Amount      uint64
	DepositedAt events.Timestamp
	MaturesAt   events.Timestamp
	Mature      bool
	Signature   string // empty: no known deposit explains this lot
}

// Position is a vault's contents at a moment. Mature and Cooling add up to the balance
// passed to At, and so do the lots.
type Position struct {
	Lots         []Lot // oldest first
	Mature       uint64
	Cooling      uint64
	NextMatureAt *events.Timestamp // nil: nothing is cooling
	// Reconciled says that the movements explain the balance.
	Reconciled bool
}

// At returns the position for movements and a balance at a time. The order of the
// movements does not matter, and repeated movements count once.
//
// The balance is the truth. If it is higher than the movements explain, the excess counts
// as a lot that began now, so that nothing matures before its age is known. If it is
// lower, the difference is taken from the youngest lots, as by a withdrawal that was not
// seen yet.
func At(movements []Movement, balance uint64, now time.Time, maturity time.Duration) Position {
	held, whole := fold(movements)
	p := Position{Lots: make([]Lot, 0, len(held)+1), Reconciled: whole}
	left := balance
	for _, d := range held {
		amount := min(d.Amount, left)
		if amount < d.Amount {
			p.Reconciled = false
		}
		if amount == 0 {
			continue
		}
		left -= amount
		p.add(Lot{Amount: amount, DepositedAt: d.At, MaturesAt: d.At.Add(maturity), Signature: d.Signature}, now)
	}
	if left > 0 {
		p.Reconciled = false
		p.add(Lot{Amount: left, DepositedAt: events.At(now), MaturesAt: events.At(now).Add(maturity)}, now)
	}
	return p
}

func (p *Position) add(l Lot, now time.Time) {
	l.Mature = l.Signature != "" && !now.Before(l.MaturesAt.Time())
	p.Lots = append(p.Lots, l)
	if l.Mature {
		p.Mature += l.Amount
		return
	}
	p.Cooling += l.Amount
	if p.NextMatureAt == nil || l.MaturesAt.Before(*p.NextMatureAt) {
		p.NextMatureAt = &l.MaturesAt
	}
}

// fold returns the rest of each deposit, oldest first. The bool is false if more was
// withdrawn than was deposited, so that a deposit must be missing.
func fold(movements []Movement) ([]Movement, bool) {
	var held []Movement
	whole := true
	for _, m := range Order(movements) {
		if m.Deposit {
			held = append(held, m)
			continue
		}
		for m.Amount > 0 && len(held) > 0 {
			youngest := &held[len(held)-1]
			taken := min(m.Amount, youngest.Amount)
			youngest.Amount -= taken
			m.Amount -= taken
			if youngest.Amount == 0 {
				held = held[:len(held)-1]
			}
		}
		whole = whole && m.Amount == 0
	}
	return held, whole
}

// Order returns the movements in chain order, each once. Within a slot, we do not know
// the chain's order. Deposits come first there, so that no withdrawal lacks a deposit
// made before it.
func Order(movements []Movement) []Movement {
	ordered := slices.Clone(movements)
	slices.SortFunc(ordered, func(a, b Movement) int {
		return cmp.Or(cmp.Compare(a.Slot, b.Slot), depositsFirst(a, b), cmp.Compare(a.Signature, b.Signature),
			cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.Amount, b.Amount), a.At.Time().Compare(b.At.Time()))
	})
	type key struct {
		signature string
		deposit   bool
		ordinal   int
	}
	seen := make(map[key]bool, len(ordered))
	return slices.DeleteFunc(ordered, func(m Movement) bool {
		k := key{m.Signature, m.Deposit, m.Ordinal}
		again := seen[k]
		seen[k] = true
		return again || m.Amount == 0
	})
}

func depositsFirst(a, b Movement) int {
	switch {
	case a.Deposit == b.Deposit:
		return 0
	case a.Deposit:
		return -1
	}
	return 1
}

var (
	ErrAmount          = errors.New("amount must be a decimal string of base units, from 1 to 18446744073709551615")
	ErrMoreThanStaked  = errors.New("amount exceeds what is staked")
	ErrBelowMinimum    = errors.New("amount is below the minimum of a partial unstake")
	ErrBalanceUnknown  = errors.New("the balance onchain could not be read; try again")
	ErrChainUnreadable = errors.New("the chain could not be reached; try again")
)

// Parse reads an amount: decimal digits without a leading zero, from 1 to the largest
// u64. Other forms that a number parser accepts, such as a sign, are refused: two texts
// for one amount would hide a mistake.
func Parse(text string) (uint64, error) {
	const longest = 20
	if text == "" || len(text) > longest || text[0] == '0' {
		return 0, ErrAmount
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, ErrAmount
		}
	}
	amount, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, ErrAmount
	}
	return amount, nil
}

// Unstake checks whether amount may be withdrawn from the staked amount. A withdrawal of
// everything is always allowed. A partial one must be at least minPartial.
func Unstake(amount, staked, minPartial uint64) error {
	switch {
	case amount > staked:
		return ErrMoreThanStaked
	case amount < staked && amount < minPartial:
		return ErrBelowMinimum
	}
	return nil
}
