package memory

import (
	"slices"
	"testing"

	"github.com/memory-ledger/ledger/projections/readmodel/memories"
)

// TestACursorBeyondTheLog: a client may have made up its cursor. Nothing follows it.
func TestACursorBeyondTheLog(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w := h.writer(t)
	h.write(t, w, "a", "b", "c")
	for _, leaf := range []string{"2", "3", "4", "1000", "9223372036854775807"} {
		for _, query := range []string{"", "b"} {
			picked, err := h.service(0).Select(t.Context(), Reader{Owner: w.owner}, Selection{Query: query, Order: Oldest, Limit: 5, Cursor: "o" + leaf}, nil)
			if err != nil || picked.More() {
				t.Errorf("%q after leaf %s: %d hits, %v", query, leaf, len(picked.hits), err)
			}
		}
	}
}

// TestAllIsSelectedAFewAtATime: a selection without a limit yields every match once, in
// order, and never holds many, however slowly its client reads.
func TestAllIsSelectedAFewAtATime(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w := h.writer(t)
	h.write(t, w, slices.Repeat([]string{"needle", "needle", "hay"}, unlimitedHits*2/3)...)
	const from = 100
	for _, order := range []Order{Oldest, Newest} {
		for _, query := range []string{"", "needle"} {
			for _, filter := range []memories.Filter{{}, {From: w.written[from].CreatedAt.Time()}} {
				var want []uint64
				for _, v := range w.written {
					if (query == "" || v.Content == query) && (filter.All() || v.LeafIndex >= from) {
						want = append(want, v.LeafIndex)
					}
				}
				if order == Newest {
					slices.Reverse(want)
				}
				picked, err := h.service(1<<30).Select(t.Context(), Reader{Owner: w.owner}, Selection{Query: query, Order: order, Filter: filter}, nil)
				if err != nil {
					t.Fatal(err)
				}
				var got []uint64
				held := 0
				for picked.More() {
					held = max(held, cap(picked.hits))
					if err := picked.Next(t.Context(), func(v *View) error {
						got = append(got, v.LeafIndex)
						return nil
					}); err != nil {
						t.Fatal(err)
					}
				}
				if !slices.Equal(got, want) || picked.NextCursor != "" {
					t.Errorf("%s %q, filtered: %v: %d leaves instead of %d, or in another order; cursor %q", order, query, !filter.All(), len(got), len(want), picked.NextCursor)
				}
				if held > 2*unlimitedHits {
					t.Errorf("%s %q: holds %d hits", order, query, held)
				}
			}
		}
	}
}
