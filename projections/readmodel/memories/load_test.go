package memories_test

import (
	"math"
	"reflect"
	"testing"

	"github.com/memory-ledger/ledger/events/canonical"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
)

// TestLoadReadsWhatScanReads: Load and Scan return the same memories, also for very long
// rows.
func TestLoadReadsWhatScanReads(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	a, other := fixture.NewActor(), fixture.NewActor()
	var messages []fixture.Message
	for range 60 {
		for _, text := range odd {
			object, err := canonical.Canonicalize([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			messages = append(messages, a.Write(object.String()), other.Write(`{}`))
		}
	}
	fixture.Apply(t, pool, fixture.Slice(1, messages...), memories.Projection{})
	leaves := len(messages) / 2
	for _, c := range []struct{ from, to uint64 }{
		{0, uint64(leaves)}, {7, 8}, {100, 300}, {5, 5}, {9, 3}, {uint64(leaves) - 2, uint64(leaves) + 50},
		{uint64(leaves), math.MaxInt64}, {0, math.MaxUint64}, {math.MaxUint64 - 1, math.MaxUint64},
	} {
		var want []memories.Memory
		if c.from < c.to {
			limit := 0
			if c.to < uint64(2*leaves) {
				limit = int(c.to - c.from)
			}
			if err := memories.Scan(t.Context(), pool, a.Owner, c.from, limit, func(m *memories.Memory) error {
				want = append(want, *m)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := memories.Load(t.Context(), pool, a.Owner, c.from, c.to)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%d to %d: %d rows, want %d", c.from, c.to, len(got), len(want))
		}
		for i := range got {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Fatalf("%d to %d, row %d:\n got %+v\nwant %+v", c.from, c.to, i, got[i], want[i])
			}
		}
	}
}
