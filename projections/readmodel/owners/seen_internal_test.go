package owners

import (
	"math/rand/v2"
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
)

// TestWhoIsForgottenIsAskedAbout: the number of remembered owners changes neither the
// rows nor the refusals.
func TestWhoIsForgottenIsAskedAbout(t *testing.T) {
	t.Parallel()
	messages := fixture.NewHistory(77, 9).Messages(600)
	var want []string
	for _, limit := range []int{0, 1, 3, 100} {
		_, pool := fixture.Database(t)
		p := Projection{}
		if limit > 0 {
			p.seen = newSeen(limit)
		}
		chance := rand.New(rand.NewPCG(7, 7))
		for at := 0; at < len(messages); {
			n := min(1+chance.IntN(20), len(messages)-at)
			fixture.Apply(t, pool, fixture.Slice(uint64(at+1), messages[at:at+n]...), p, memories.Projection{})
			at += n
		}
		if limit > 0 && p.seen.owners.Len() > limit {
			t.Errorf("%d owners are remembered, of at most %d", p.seen.owners.Len(), limit)
		}
		got := fixture.Dump(t, pool, p)
		if want == nil {
			want = got
		}
		if difference := fixture.Difference(want, got); difference != "" {
			t.Errorf("with %d owners remembered: %s", limit, difference)
		}
		for _, m := range messages {
			data, ok := m.Events[0].Data.(*events.MemoryWritten)
			if !ok {
				continue
			}
			gap := *data
			gap.LeafIndex += 1000
			m.Events = []events.Event{m.Events[0]}
			m.Events[0].Data = &gap
			if err := fixture.TryApply(pool, fixture.Slice(uint64(len(messages)+1), m), p, memories.Projection{}); err == nil {
				t.Errorf("with %d owners remembered, a leaf after a gap went through", limit)
			}
			break
		}
	}
}
