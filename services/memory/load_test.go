package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/projections/pages"
)

// TestLongReadsGoByHalves: where both halves may be read at a time they are, and
// make the same pages; what goes wrong with one half ends the other, and is told.
func TestLongReadsGoByHalves(t *testing.T) {
	t.Parallel()
	const count = 2*halfPages + 2*firstLeaves/pages.Leaves // a search begins with a short piece
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
	exec := func(t *testing.T, sql string) {
		t.Helper()
		if _, err := h.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
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
		exec(t, `ALTER TABLE memories RENAME TO away`) // no page is made of rows
		got, err := source{h.pool, w.owner, true}.load(t.Context(), 0, count*pages.Leaves, pages.Page{}, func(p pages.Page) {
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
		exec(t, `ALTER TABLE away RENAME TO memories`)
		if err != nil {
			t.Fatal(err)
		}
		same := func(a, b pages.Page) bool {
			return a.First() == b.First() && slices.EqualFunc(a.Leaves(), b.Leaves(), equalLeaves)
		}
		if !slices.EqualFunc(got, want[:count], same) {
			t.Error("other pages than in one read")
		}
		slices.Sort(yielded)
		if n := len(slices.Compact(yielded)); n != count || len(yielded) != n {
			t.Errorf("%d pages were yielded, %d different ones", len(yielded), n)
		}
	})
	t.Run("by one, rather than take the last connection", func(t *testing.T) {
		cfg := h.pool.Config().Copy()
		cfg.MaxConns = 2
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		pinged := make(chan struct{})
		got, err := source{pool, w.owner, true}.load(t.Context(), 0, leaves, pages.Page{}, func(p pages.Page) {
			if p.First() > 0 {
				<-pinged // a second half would have its connection until then
				return
			}
			defer close(pinged)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := pool.Ping(ctx); err != nil {
				t.Errorf("beside a long read: %v", err)
			}
		})
		if err != nil || len(got) != count+1 {
			t.Errorf("%d pages, %v", len(got), err)
		}
	})
	t.Run("by a search that has the second processor", func(t *testing.T) {
		asked := func(s *Service) int64 {
			before := h.pool.Stat().AcquireCount()
			if found, _, err := search(t, s, w.owner, "number 16000"); err != nil || len(found) != 1 {
				t.Errorf("%d found, %v", len(found), err)
			}
			return h.pool.Stat().AcquireCount() - before
		}
		alone, beside := h.service(0), h.service(0)
		if release := beside.Turns.TryTake(); release == nil {
			t.Fatal("no processor to take")
		}
		if two, one := asked(alone), asked(beside); two != one+1 {
			t.Errorf("%d connections with it, %d without", two, one)
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
			exec(t, fmt.Sprintf(`UPDATE body_pages SET bodies = set_byte(bodies, 15, get_byte(bodies, 15) # 1) WHERE page = %d`, damaged))
			_, err := read(true, func(pages.Page) {})
			if !errors.Is(err, pages.ErrFormat) || !strings.Contains(err.Error(), fmt.Sprintf("page %d of", damaged)) {
				t.Error(err)
			}
			exec(t, fmt.Sprintf(`DELETE FROM body_pages WHERE page = %d`, damaged))
			got, err := read(true, func(pages.Page) {})
			if err != nil || len(got) != count+1 {
				t.Errorf("without it: %d pages, %v", len(got), err)
			}
		})
	}
}

func equalLeaves(a, b pages.Leaf) bool { return a.ID == b.ID && string(a.Sealed) == string(b.Sealed) }
