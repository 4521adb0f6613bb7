package memory

import (
	"fmt"
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
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
		"anchored, the log went on":  {anchored: true, putAt: 7, getAt: 8, by: owner}, // it may have been retracted since
		"anchored, never known":      {anchored: true, by: owner},
		"somebody else's":            {anchored: true, putAt: 7, getAt: 7, by: "b"},
		"open first, anchored later": {putAt: 7, getAt: 8, by: owner, want: true, putAgainAnchor: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := NewRowCache(1 << 20)
			r.put(Reader{owner, at(c.putAt)}, &memories.Memory{ID: id, Owner: owner, Anchored: c.anchored})
			if c.putAgainAnchor {
				r.put(Reader{owner, at(8)}, &memories.Memory{ID: id, Owner: owner, Anchored: true})
			}
			m, ok := r.get(Reader{c.by, at(c.getAt)}, id)
			if ok != c.want || (ok && m.Anchored != (c.anchored || c.putAgainAnchor)) {
				t.Errorf("got %v %+v", ok, m)
			}
		})
	}
	// A reader of the new read models gets no row of the old ones. A reader of the old ones
	// does not replace a row of the new ones.
	r, swapped := NewRowCache(1<<20), fence.Head{Seq: 7, Tables: 1}
	r.put(Reader{owner, at(7)}, &memories.Memory{ID: id, Owner: owner, Anchored: true})
	if _, ok := r.get(Reader{owner, swapped}, id); ok {
		t.Error("a row of read models that are gone")
	}
	r.put(Reader{owner, swapped}, &memories.Memory{ID: id, Owner: owner})
	r.put(Reader{owner, at(7)}, &memories.Memory{ID: id, Owner: owner, Anchored: true})
	if m, ok := r.get(Reader{owner, swapped}, id); !ok || m.Anchored {
		t.Errorf("of the new ones: %v %+v", ok, m)
	}
	var none *RowCache
	none.put(Reader{Head: at(1)}, &memories.Memory{})
	if _, ok := none.get(Reader{Head: at(1)}, ""); ok {
		t.Error("no cache held something")
	}
}

func TestRecentKeepsToItsBudget(t *testing.T) {
	t.Parallel()
	const budget = 10_000
	r := NewRowCache(budget)
	sealed := make([]byte, 500)
	for i := range 100 {
		for range 2 { // the second time replaces the first
			r.put(Reader{"a", at(1)}, &memories.Memory{ID: fmt.Sprint(i), Owner: "a", LeafIndex: uint64(i), Sealed: sealed, Anchored: true})
		}
	}
	if want := int64(r.rows.Len()) * (500 + rowOverhead); r.used > budget || r.used != want || r.used < budget/2 {
		t.Errorf("%d bytes used, %d rows", r.used, r.rows.Len())
	}
	if _, ok := r.get(Reader{"a", at(1)}, "99"); !ok {
		t.Error("the newest is gone")
	}
	r.put(Reader{"a", at(1)}, &memories.Memory{ID: "huge", Owner: "a", LeafIndex: 100, Sealed: make([]byte, budget), Anchored: true})
	if _, ok := r.get(Reader{"a", at(1)}, "99"); !ok {
		t.Error("one that does not fit drove others out")
	}
}

// TestShortListsAreKeptWhole: a list comes from the cache only if all its rows are cached
// and valid for the reader, and it is not too long.
func TestShortListsAreKeptWhole(t *testing.T) {
	t.Parallel()
	const width = 100
	r := NewRowCache(1 << 20)
	row := func(leaf uint64, anchored bool) *memories.Memory {
		return &memories.Memory{ID: fmt.Sprint(leaf), Owner: "a", LeafIndex: leaf, Sealed: make([]byte, width), Anchored: anchored}
	}
	r.put(Reader{"a", at(7)}, row(0, true), row(1, true))
	r.put(Reader{"a", at(7)}, row(2, false), row(3, false))
	for name, c := range map[string]struct {
		reader   Reader
		from, to uint64
		most     int
		want     bool
	}{
		"all":                    {Reader{"a", at(7)}, 0, 4, 4 * width, true},
		"what is anchored":       {Reader{"a", at(7)}, 0, 2, 4 * width, true},
		"what was anchored":      {Reader{"a", at(9)}, 0, 2, 4 * width, false},
		"the rest":               {Reader{"a", at(7)}, 2, 4, 4 * width, true},
		"the log went on":        {Reader{"a", at(8)}, 0, 4, 4 * width, false},
		"the head is not known":  {Reader{"a", at(0)}, 2, 4, 4 * width, false},
		"more than there is":     {Reader{"a", at(7)}, 0, 5, 5 * width, false},
		"too many bytes":         {Reader{"a", at(7)}, 0, 4, 4*width - 1, false},
		"somebody else's leaves": {Reader{"b", at(7)}, 0, 4, 4 * width, false},
	} {
		rows, ok := r.run(c.reader, c.from, c.to, c.most)
		if ok != c.want || ok && uint64(len(rows)) != c.to-c.from {
			t.Errorf("%s: %v, %d rows", name, ok, len(rows))
		}
		for i, m := range rows {
			if m.LeafIndex != c.from+uint64(i) {
				t.Errorf("%s: leaf %d in the place of %d", name, m.LeafIndex, c.from+uint64(i))
			}
		}
	}
	// A slower reader read it before it was anchored.
	r.put(Reader{"a", at(7)}, row(0, false))
	if m, ok := r.get(Reader{"a", at(7)}, "0"); !ok || !m.Anchored {
		t.Error("what was anchored is not any more")
	}
	// A slower reader read it before it was retracted.
	gone := row(1, true)
	gone.Retracted = true
	r.put(Reader{"a", at(7)}, gone)
	r.put(Reader{"a", at(7)}, row(1, true))
	if m, ok := r.get(Reader{"a", at(7)}, "1"); !ok || !m.Retracted {
		t.Error("what was retracted is not any more")
	}
	// A dropped row is found neither by id nor in a list.
	r.budget = 1
	r.put(Reader{"a", at(7)}, row(4, true))
	for range 4 {
		r.rows.RemoveOldest()
	}
	if _, ok := r.get(Reader{"a", at(7)}, "2"); ok || r.used != 0 || len(r.ids) != 0 {
		t.Errorf("left behind: %d bytes, %d places", r.used, len(r.ids))
	}
	var none *RowCache
	if _, ok := none.run(Reader{"a", at(7)}, 0, 0, 1); ok {
		t.Error("no cache held something")
	}
}
