package projector_test

import (
	"math/rand/v2"
	"testing"

	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
)

// TestRowsDoNotDependOnTheCut: the same log makes the same rows message by message, in
// slices of any length, and as one slice.
func TestRowsDoNotDependOnTheCut(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	const length = 1500
	url := pgtest.Database(t)
	for seed := range uint64(3) {
		messages := fixture.NewHistory(seed, 5).Messages(length)
		chance := rand.New(rand.NewPCG(seed, 1))
		var want []string
		for name, longest := range map[string]int{"single": 1, "short": 12, "long": 400, "whole": length} {
			pool := fixture.Pool(t, url, name+string(rune('a'+seed)))
			projections := readmodel.All()
			for at := 0; at < length; {
				n := longest
				if longest > 1 && longest < length {
					n = 1 + chance.IntN(longest)
				}
				n = min(n, length-at)
				fixture.Apply(t, pool, fixture.Slice(uint64(at+1), messages[at:at+n]...), projections...)
				if at += n; chance.IntN(3) == 0 { // as when a projector fails, or another takes over
					projections = projector.Begin(projections)
				}
			}
			got := fixture.Dump(t, pool, readmodel.All()...)
			if want == nil {
				want = got
			}
			if difference := fixture.Difference(want, got); difference != "" {
				t.Errorf("seed %d, %s: %s", seed, name, difference)
			}
		}
		if len(want) < length/3 {
			t.Errorf("only %d rows came of %d messages", len(want), length)
		}
	}
}
