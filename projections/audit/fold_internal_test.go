package audit

import (
	"testing"

	"github.com/memory-ledger/ledger/events"
)

// TestEveryEventTypeHasARule: the audit has a rule for every event type of the
// catalogue. An event type without a rule ends the audit.
func TestEveryEventTypeHasARule(t *testing.T) {
	t.Parallel()
	for _, d := range events.Catalogue() {
		a := &auditor{report: &report{to: func(Finding) {}, unread: map[unread]uint64{}}}
		f := newFold(a)
		e := events.Event{Data: d.New()}
		if err := f.event(t.Context(), &current{owner: f.owner("o"), seq: 1, event: &e}); err != nil {
			t.Errorf("%s: %v", d.Type, err)
		}
	}
	e := events.Event{Data: forgotten{}}
	f := newFold(&auditor{})
	if err := f.event(t.Context(), &current{owner: f.owner("o"), event: &e}); err == nil {
		t.Error("an unknown event passes")
	}
}

// forgotten is an event that the audit has no rule for.
type forgotten struct{ events.Data }

func (forgotten) EventType() events.Type { return "Forgotten" }
