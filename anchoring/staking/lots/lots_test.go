package lots_test

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/memory-ledger/ledger/anchoring/staking/lots"
	"github.com/memory-ledger/ledger/events"
)

var start = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

// history is a vault's history. It never withdraws more than the balance.
type history struct {
	movements []lots.Movement
	balance   uint64
	end       time.Time
}

func drawHistory(t *rapid.T) history {
	h := history{end: start}
	slot := uint64(1)
	for i := range rapid.IntRange(0, 30).Draw(t, "movements") {
		slot += rapid.Uint64Range(0, 2).Draw(t, "slots")
		h.end = h.end.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "minutes")) * time.Minute)
		m := lots.Movement{Signature: fmt.Sprint("signature ", i), Slot: slot, At: events.At(h.end)}
		m.Deposit = h.balance == 0 || rapid.Bool().Draw(t, "deposit")
		most := h.balance
		if m.Deposit {
			most = math.MaxUint64 - h.balance
		}
		if most == 0 {
			continue
		}
		m.Amount = rapid.Uint64Range(1, most).Draw(t, "amount")
		if m.Deposit {
			h.balance += m.Amount
		} else {
			h.balance -= m.Amount
		}
		h.movements = append(h.movements, m)
	}
	return h
}

// addsUp checks the rules that every position must follow, for any movements.
func addsUp(t *rapid.T, p lots.Position, balance uint64, now time.Time) {
	var mature, cooling uint64
	for _, l := range p.Lots {
		if l.Amount == 0 || l.Amount > balance {
			t.Fatalf("lot %+v of %d", l, balance)
		}
		if l.Mature {
			mature += l.Amount
		} else {
			cooling += l.Amount
		}
		if l.Mature && now.Before(l.MaturesAt.Time()) {
			t.Fatalf("lot %+v is mature before its time", l)
		}
	}
	if mature != p.Mature || cooling != p.Cooling || mature+cooling != balance {
		t.Fatalf("%d mature, %d cooling, lots %d and %d, balance %d", p.Mature, p.Cooling, mature, cooling, balance)
	}
	if (p.NextMatureAt == nil) != (cooling == 0) {
		t.Fatalf("next at %v with %d cooling", p.NextMatureAt, cooling)
	}
}

func TestPositionsAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		maturity := time.Duration(rapid.IntRange(0, 1000).Draw(t, "maturity")) * time.Minute
		now := h.end.Add(time.Duration(rapid.IntRange(-500, 2000).Draw(t, "later")) * time.Minute)
		want := lots.At(h.movements, h.balance, now, maturity)
		addsUp(t, want, h.balance, now)
		if !want.Reconciled {
			t.Fatal("all was seen, and yet it is not reconciled")
		}
		// Late, repeated and reordered movements give the same position.
		seen := append([]lots.Movement(nil), h.movements...)
		if len(seen) > 0 {
			seen = append(seen, rapid.SliceOf(rapid.SampledFrom(h.movements)).Draw(t, "again")...)
			seen = rapid.Permutation(seen).Draw(t, "order")
		}
		if got := lots.At(seen, h.balance, now, maturity); !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
	})
}

func TestPositionsAddUpWhateverWasMissed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		var seen []lots.Movement
		for _, m := range h.movements {
			if rapid.Bool().Draw(t, "seen") {
				seen = append(seen, m)
			}
		}
		balance := rapid.OneOf(rapid.Just(h.balance), rapid.Uint64()).Draw(t, "balance")
		addsUp(t, lots.At(seen, balance, h.end, time.Hour), balance, h.end)
	})
}

func TestYoungestFirst(t *testing.T) {
	t.Parallel()
	at := func(hours int) events.Timestamp { return events.At(start.Add(time.Duration(hours) * time.Hour)) }
	movements := []lots.Movement{
		{Deposit: true, Amount: 100, Signature: "a", Slot: 1, At: at(0)},
		{Deposit: true, Amount: 50, Signature: "b", Slot: 2, At: at(20)},
		{Amount: 70, Signature: "c", Slot: 3, At: at(21)},
	}
	now := start.Add(30 * time.Hour)
	for name, test := range map[string]struct {
		seen            int
		balance         uint64
		mature, cooling uint64
		reconciled      bool
	}{
		"before the withdrawal":          {2, 150, 100, 50, true},
		"after it":                       {3, 80, 80, 0, true},
		"a withdrawal not seen yet":      {2, 80, 80, 0, false},
		"a deposit not seen yet":         {2, 160, 100, 60, false},
		"all gone, unseen":               {2, 0, 0, 0, false},
		"a vault that nothing explains":  {0, 7, 0, 7, false},
		"an empty vault without history": {0, 0, 0, 0, true},
	} {
		p := lots.At(movements[:test.seen], test.balance, now, 24*time.Hour)
		if p.Mature != test.mature || p.Cooling != test.cooling || p.Reconciled != test.reconciled {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if p := lots.At(movements[2:], 0, now, time.Hour); p.Reconciled {
		t.Error("a withdrawal without a deposit is reconciled")
	}
}
