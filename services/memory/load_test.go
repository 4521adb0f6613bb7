package memory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/projections/pages"
)

// TestLongReadsGoByHalves: where both halves may be read at a time they are, and
// make the same pages; what goes wrong with one half ends the other, and is told.
func TestLongReadsGoByHalves(t *testing.T) {
	t.Parallel()
	const count = 2*halfPages + 1
	h := newHistory(t)
	w := h.writer(t)
	for n := range count {
		texts := make([]string, pages.Leaves)
		for i := range texts {
			texts[i] = fmt.Sprintf("number %d", n*pages.Leaves+i)
		}
		h.write(t, w, texts...)
	}
	h.write(t, w, "the page that is begun")
	const leaves = count*pages.Leaves + 1
	read := func(both bool, yield func(pages.Page)) ([]pages.Page, error) {
		return source{h.pool, w.owner, both}.load(t.Context(), 0, leaves, pages.Page{}, yield)
	}
	want, err := read(false, func(pages.Page) {})
	if err != nil || len(want) != count+1 {
		t.Fatal(len(want), err)
	}

	t.Run("at a time", func(t *testing.T) {
		var (
			mu      sync.Mutex
			yielded []uint64
			second  sync.Once
			begun   = make(chan struct{}) // of the second half
		)
		got, err := read(true, func(p pages.Page) {
			mu.Lock()
			yielded = append(yielded, p.First())
			mu.Unlock()
			if p.First() >= count/2*pages.Leaves {
				second.Do(func() { close(begun) })
			}
			if p.First() > 0 {
				return
			}
			select {
			case <-begun:
			case <-time.After(10 * time.Second):
				t.Error("the second half waits for the first")
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		same := func(a, b pages.Page) bool {
			return a.First() == b.First() && slices.EqualFunc(a.Leaves(), b.Leaves(), equalLeaves)
		}
		if !slices.EqualFunc(got, want, same) {
			t.Error("other pages than in one read")
		}
		slices.Sort(yielded)
		if n := len(slices.Compact(yielded)); n != count+1 || len(yielded) != n {
			t.Errorf("%d pages were yielded, %d different ones", len(yielded), n)
		}
	})
	t.Run("a panic", func(t *testing.T) {
		_, err := read(true, func(p pages.Page) {
			if p.First() == (count-1)*pages.Leaves {
				panic("at the last full page")
			}
		})
		if err == nil || !strings.Contains(err.Error(), "panic: at the last full page") {
			t.Error(err)
		}
	})
	for _, damaged := range []int{1, count - 1} {
		t.Run(fmt.Sprintf("page %d is damaged", damaged), func(t *testing.T) {
			if _, err := h.pool.Exec(t.Context(), `UPDATE body_pages SET bodies = set_byte(bodies, 15, get_byte(bodies, 15) # 1) WHERE page = $1`, damaged); err != nil {
				t.Fatal(err)
			}
			_, err := read(true, func(pages.Page) {})
			if !errors.Is(err, pages.ErrFormat) || !strings.Contains(err.Error(), fmt.Sprintf("page %d of", damaged)) {
				t.Error(err)
			}
			if _, err := h.pool.Exec(t.Context(), `DELETE FROM body_pages WHERE page = $1`, damaged); err != nil {
				t.Fatal(err)
			}
			got, err := read(true, func(pages.Page) {})
			if err != nil || len(got) != count+1 {
				t.Errorf("without it: %d pages, %v", len(got), err)
			}
		})
	}
}

func equalLeaves(a, b pages.Leaf) bool { return a.ID == b.ID && string(a.Sealed) == string(b.Sealed) }
