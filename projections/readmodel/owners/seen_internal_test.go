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
	for _, forgotten := range []int{0, 1, 3, 1000} { // after so many slices; 0: nothing is remembered
		_, pool := fixture.Database(t)
		p := Projection{}
		if forgotten > 0 {
			p.seen = seen{}
		}
		chance := rand.New(rand.NewPCG(7, 7))
		for at, slices := 0, 1; at < len(messages); slices++ {
			n := min(1+chance.IntN(20), len(messages)-at)
			fixture.Apply(t, pool, fixture.Slice(uint64(at+1), messages[at:at+n]...), p, memories.Projection{})
			at += n
			if forgotten > 0 && slices%forgotten == 0 {
				clear(p.seen)
			}
		}
		got := fixture.Dump(t, pool, p)
		if want == nil {
			want = got
		}
		if difference := fixture.Difference(want, got); difference != "" {
			t.Errorf("forgotten after %d slices: %s", forgotten, difference)
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
				t.Errorf("forgotten after %d slices, a leaf after a gap went through", forgotten)
			}
			break
		}
	}
}
