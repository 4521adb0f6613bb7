package stakes_test

import (
	"math"
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/readmodel/stakes"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestMovementsAreListedInChainOrderAndOnlyOnce(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	a, other := fixture.NewActor(), fixture.NewActor()
	move := func(signature, amount string, slot uint64) events.StakeDeposited {
		return events.StakeDeposited{Mint: "mint", Vault: "vault", Amount: amount, Signature: signature, Slot: slot}
	}
	late, early := move("late", "18446744073709551615", 20), move("early", "10000", 10)
	sameAgain := early
	out := events.StakeWithdrawn(move("early", "7", 10))
	foreign := move("late", "1", 5)
	foreign.Vault = "another"
	fixture.Apply(t, pool, fixture.Slice(1, a.Say(&late), a.Say(&early, &sameAgain, &out), other.Say(&foreign)), stakes.Projection{})
	// Record the movements again, in another slice and twice in the same slice.
	fixture.Apply(t, pool, fixture.Slice(4, a.Say(&early, &sameAgain, &out), a.Say(&late), a.Say(&late)), stakes.Projection{})

	got, err := stakes.List(t.Context(), pool, a.Owner)
	if err != nil {
		t.Fatal(err)
	}
	want := []stakes.Movement{
		{Direction: stakes.Deposit, Amount: 10_000, Signature: "early", Slot: 10, Ordinal: 0},
		{Direction: stakes.Deposit, Amount: 10_000, Signature: "early", Slot: 10, Ordinal: 1},
		{Direction: stakes.Withdrawal, Amount: 7, Signature: "early", Slot: 10, Ordinal: 0},
		{Direction: stakes.Deposit, Amount: math.MaxUint64, Signature: "late", Slot: 20, Ordinal: 0},
	}
	if len(got) != len(want) {
		t.Fatalf("%d movements: %+v", len(got), got)
	}
	for i := range want {
		want[i].Vault, want[i].BlockTime = "vault", got[i].BlockTime
		if got[i] != want[i] {
			t.Errorf("movement %d: %+v\nwant %+v", i, got[i], want[i])
		}
	}
}

func TestAnAmountThatIsNoU64IsRefused(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	a := fixture.NewActor()
	for _, amount := range []string{"", "-1", "1.5", "18446744073709551616", "0x10", "ten"} {
		err := fixture.TryApply(pool, fixture.Slice(1, a.Say(&events.StakeDeposited{Amount: amount})), stakes.Projection{})
		if err == nil {
			t.Errorf("amount %q went through", amount)
		}
	}
}
