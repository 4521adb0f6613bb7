package memory

import (
	"testing"
	"time"

	"github.com/memory-ledger/ledger/anchoring/chainview"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/readmodel/batches"
)

// lastSeen is a chain view that has seen one account.
type lastSeen struct{ seen *chainview.Seen }

func (l lastSeen) Last(chainview.Account) *chainview.Seen { return l.seen }

// TestOnchainRoot: an account only grows, so a node that shows fewer leaves than were
// confirmed is behind.
func TestOnchainRoot(t *testing.T) {
	t.Parallel()
	confirmed := time.Unix(1_700_000_000, 0)
	at, root, seen := events.At(confirmed), events.Hash{1}, events.Hash{2}
	newest := &batches.Batch{Size: 8, Root: root, ConfirmedAt: &at}
	for name, c := range map[string]struct {
		seen *chainview.Seen
		want events.Hash
	}{
		"never":                    {nil, root},
		"later, with more":         {&chainview.Seen{Size: 9, Root: seen, At: confirmed.Add(time.Hour)}, seen},
		"later, with as many":      {&chainview.Seen{Size: 8, Root: seen, At: confirmed.Add(time.Hour)}, seen},
		"before":                   {&chainview.Seen{Size: 7, Root: seen, At: confirmed.Add(-time.Hour)}, root},
		"later, by a node behind":  {&chainview.Seen{Size: 7, Root: seen, At: confirmed.Add(time.Hour)}, root},
		"before, with more leaves": {&chainview.Seen{Size: 9, Root: seen, At: confirmed.Add(-time.Hour)}, seen},
	} {
		s := &Service{Config: Config{Chain: lastSeen{c.seen}}}
		if got := s.onchainRoot("owner", newest); got == nil || *got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
