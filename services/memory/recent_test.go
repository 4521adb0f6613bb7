package memory

import (
	"fmt"
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/memories"
)

func TestRecentIsRightOrSilent(t *testing.T) {
	t.Parallel()
	const owner, id = events.Owner("a"), "m"
	for name, c := range map[string]struct {
		anchored       bool
		putAt, getAt   uint64
		by             events.Owner
		want           bool
		putAgainAnchor bool
	}{
		"open, same head":            {putAt: 7, getAt: 7, by: owner, want: true},
		"open, the log went on":      {putAt: 7, getAt: 8, by: owner},
		"open, head unknown now":     {putAt: 7, getAt: 0, by: owner},
		"open, head unknown then":    {putAt: 0, getAt: 7, by: owner},
		"open, never known":          {putAt: 0, getAt: 0, by: owner},
		"anchored, the log went on":  {anchored: true, putAt: 7, getAt: 8, by: owner, want: true},
		"anchored, never known":      {anchored: true, by: owner, want: true},
		"somebody else's":            {anchored: true, putAt: 7, getAt: 7, by: "b"},
		"open first, anchored later": {putAt: 7, getAt: 9, by: owner, want: true, putAgainAnchor: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := NewRecent(1 << 20)
			r.put(&memories.Memory{ID: id, Owner: owner, Anchored: c.anchored}, c.putAt)
			if c.putAgainAnchor {
				r.put(&memories.Memory{ID: id, Owner: owner, Anchored: true}, 8)
			}
			m, ok := r.get(c.by, id, c.getAt)
			if ok != c.want || (ok && m.Anchored != (c.anchored || c.putAgainAnchor)) {
				t.Errorf("got %v %+v", ok, m)
			}
		})
	}
	var none *Recent
	none.put(&memories.Memory{}, 1)
	if _, ok := none.get("", "", 1); ok {
		t.Error("no cache held something")
	}
}

func TestRecentKeepsToItsBudget(t *testing.T) {
	t.Parallel()
	const budget = 10_000
	r := NewRecent(budget)
	sealed := make([]byte, 500)
	for i := range 100 {
		for range 2 { // the second time replaces the first
			r.put(&memories.Memory{ID: fmt.Sprint(i), Owner: "a", Sealed: sealed, Anchored: true}, 1)
		}
	}
	if want := int64(r.rows.Len()) * (500 + 2*rowOverhead); r.used > budget || r.used != want || r.used < budget/2 {
		t.Errorf("%d bytes used, %d rows", r.used, r.rows.Len())
	}
	if _, ok := r.get("a", "99", 1); !ok {
		t.Error("the newest is gone")
	}
	r.put(&memories.Memory{ID: "huge", Sealed: make([]byte, budget), Anchored: true}, 1)
	if _, ok := r.get("a", "99", 1); !ok {
		t.Error("one that does not fit drove others out")
	}
}
