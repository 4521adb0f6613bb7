package memory

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// TestADamagedRowIsOneBadMemory: bytes of one row are altered in the database. Lists and
// exports show the memory as damaged, searches leave it out and count it, it is refused
// alone, and the owner's other memories are as before.
func TestADamagedRowIsOneBadMemory(t *testing.T) {
	t.Parallel()
	const hurt, size = 2, 5
	for name, c := range map[string]struct {
		change string
		alone  error // of the memory's id, where it is still an id of the owner
		unseen bool  // outside the leaf: only `ledger verify` finds it
	}{
		"nonce":         {`sealed = set_byte(sealed, 0, get_byte(sealed, 0) # 1)`, ErrDamaged, false},
		"text":          {`sealed = set_byte(sealed, 14, get_byte(sealed, 14) # 64)`, ErrDamaged, false},
		"cut":           {`sealed = substr(sealed, 1, 5)`, ErrDamaged, false},
		"metadata":      {`metadata = '{"n":7}'`, ErrDamaged, false},
		"no metadata":   {`metadata = 'x'`, ErrDamaged, false},
		"leaf hash":     {`leaf_hash = set_byte(leaf_hash, 31, get_byte(leaf_hash, 31) # 1)`, ErrDamaged, false},
		"salt":          {`salt = 'guest'`, ErrDamaged, false},
		"unknown salt":  {`salt = 'ownes'`, ErrDamaged, false},
		"id":            {`id = 'ffffffff-ffff-4fff-bfff-ffffffffffff'`, ErrNotFound, false},
		"owner":         {`owner = 'x' || owner`, ErrNotFound, false},
		"time":          {`created_at = 'infinity'`, nil, true},
		"far time":      {`created_at = '200000-01-01'`, nil, true},
		"how it came":   {`via = 'session:"'`, nil, true},
		"sequence":      {`seq = -seq`, nil, true},
		"swapped texts": {`sealed = (SELECT sealed FROM memories o WHERE o.owner = memories.owner AND o.leaf_index = 0)`, ErrDamaged, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHistory(t)
			w := h.writer(t)
			for i := range size {
				h.write(t, w, fmt.Sprintf("number %d", i))
			}
			s, r := h.service(1<<20), Reader{Owner: w.owner}
			if _, err := h.pool.Exec(t.Context(), `UPDATE memories SET `+c.change+` WHERE leaf_index = $1`, hurt); err != nil {
				t.Fatal(err)
			}
			left, damaged := size-1, 1
			if c.unseen {
				left, damaged = size, 0
			}
			for _, sel := range []Selection{
				{Order: Oldest, Damaged: true}, {Order: Newest, Damaged: true, Limit: 10},
				{Order: Oldest}, {Query: "NUMBER", Order: Oldest}, {Query: "number", Order: Newest, Limit: 10}, {Query: "number", Ranked: true, Order: Relevance},
				{Order: Occurred, Damaged: true}, {Query: "number", Order: Occurred, Limit: 10},
			} {
				for range 2 {
					p, err := s.Select(t.Context(), r, sel, nil)
					must(t, err)
					views, err := collect(t.Context(), p)
					must(t, err)
					if bad := checkViews(t, w, views); sel.Damaged && (bad != damaged || len(views) != size) || !sel.Damaged && (bad != 0 || len(views) != left || p.LeftOut() != damaged) {
						t.Errorf("%+v: %d views, %d of them damaged, %d left out", sel, len(views), bad, p.LeftOut())
					}
				}
			}
			for i, v := range w.written {
				_, err := s.Get(t.Context(), r, v.ID)
				if _, unproven := s.Receipt(t.Context(), r, v.ID); i == hurt && (!errors.Is(err, c.alone) || c.alone != nil && !errors.Is(unproven, c.alone)) || i != hurt && err != nil {
					t.Errorf("memory %d: %v; receipt: %v", i, err, unproven)
				}
			}
			if name != "owner" { // its leaf's hash is gone with it: no root can be made
				checkExport(t, s, r, size, damaged)
			}
			if n := s.DamagedMemories.Load(); (n > 0) != (damaged > 0) {
				t.Errorf("%d are counted", n)
			}
		})
	}
}

// checkViews compares views with what was written, and returns how many are damaged.
func checkViews(t *testing.T, w *writer, views []View) (damaged int) {
	t.Helper()
	for _, v := range views {
		text, err := v.AppendJSON(nil)
		if err != nil || !jsontext.Value(text).IsValid() {
			t.Errorf("encoded as %s, %v", text, err)
		}
		if v.Damaged {
			damaged++
			if v.Content != "" || string(v.Metadata) != "{}" {
				t.Errorf("damaged, with %q and %s", v.Content, v.Metadata)
			}
		} else if v.Content != w.written[v.LeafIndex].Content {
			t.Errorf("leaf %d has %q", v.LeafIndex, v.Content)
		}
	}
	return damaged
}

func checkExport(t *testing.T, s *Service, r Reader, size, damaged int) {
	t.Helper()
	x, err := s.Export(t.Context(), r, nil)
	must(t, err)
	views, err := collect(t.Context(), x.Picked)
	if err != nil || len(views) != size {
		t.Fatalf("%d leaves are exported, %v", len(views), err)
	}
	for _, v := range views {
		text, err := x.AppendLine(&v, nil)
		var l exportLine
		if err == nil {
			err = json.Unmarshal(text, &l)
		}
		if err != nil || l.Damaged != (l.Entry == nil) || l.Damaged != strings.Contains(string(text), `"damaged":true`) {
			t.Errorf("line %s, %v", text, err)
		}
		if l.Damaged {
			damaged--
		}
	}
	if damaged != 0 {
		t.Errorf("%d damaged memories are missing in the export", damaged)
	}
}
