package memory

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/projections/readmodel/bodypages"
)

// TestShortWorkIsDoneBesideLong: while another owner's long work holds the slot, pages of
// lists are read, and short logs are searched. Long work waits, even if it turns out to be
// long only later.
func TestShortWorkIsDoneBesideLong(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	service := h.service(1 << 30)
	service.Long = newScheduler(1)
	short, long := h.writer(t), h.writer(t)
	for range 4 {
		h.write(t, short, slices.Repeat([]string{"the cat"}, 250)...)
	}
	h.write(t, long, slices.Repeat([]string{strings.Repeat("the cat sleeps ", 700)}, 100)...)
	wide := h.writer(t) // with more bytes than pages hold
	h.write(t, wide, slices.Repeat([]string{strings.Repeat("cat ", bodypages.MaxBody/2)}, 40)...)

	release, err := service.Long.Take(t.Context(), "somebody", false)
	if err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	// next reads a piece that needs no slot for long work.
	next := func(c *Cursor) (read int, waits bool) {
		t.Helper()
		if !c.short() {
			if err := c.Next(gone, nil); !errors.Is(err, ErrBusy) {
				t.Fatalf("long work beside somebody's: %v", err)
			}
			return 0, true
		}
		if err := c.Next(t.Context(), func(*View) error { read++; return nil }); err != nil {
			t.Fatal(err)
		}
		return read, false
	}
	list := func(w *writer, from uint64, limit int) *Cursor {
		t.Helper()
		c, err := service.Range(t.Context(), Reader{Owner: w.owner}, from, limit)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	searching := func(w *writer) *Cursor {
		t.Helper()
		c, err := service.Search(t.Context(), Reader{Owner: w.owner}, "CAT")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, c := range []struct {
		name   string
		cursor *Cursor
		reads  []int
		waits  bool // for the slot, then
	}{
		{"a page", list(short, 500, 20), []int{20}, false},
		{"a long page", list(short, 500, shortLeaves), []int{shortRows, shortLeaves - shortRows}, false},
		{"a longer one", list(short, 500, shortLeaves+1), nil, true},
		{"the end of a list", list(short, 990, 500), []int{10}, false},
		{"all", list(short, 0, 0), nil, true},
		{"a page of long texts", list(long, 0, 100), []int{shortRows}, true},
		{"a search of what is not kept", searching(short), nil, true},
	} {
		for _, want := range c.reads {
			if read, waits := next(c.cursor); waits || read != want {
				t.Fatalf("%s: %d were read, want %d", c.name, read, want)
			}
		}
		if c.waits {
			if _, waits := next(c.cursor); !waits {
				t.Errorf("%s: was short", c.name)
			}
		}
		if !c.waits && c.cursor.More() {
			t.Errorf("%s: there is more", c.name)
		}
	}

	release()
	for _, w := range []*writer{short, long, wide} {
		if found, _, err := searchAll(t, service, w.owner, "CAT"); err != nil || len(found) != len(w.written) {
			t.Fatalf("%d were found: %v", len(found), err)
		}
	}
	release, err = service.Long.Take(t.Context(), "somebody", false)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	found, cursor := 0, searching(short)
	for cursor.More() {
		read, waits := next(cursor)
		if waits || found == 0 && read != shortRows {
			t.Fatalf("a search of few bytes that are kept: %d at first", read)
		}
		found += read
	}
	if found != len(short.written) {
		t.Errorf("%d were found", found)
	}
	for _, w := range []*writer{long, wide} {
		if _, waits := next(searching(w)); !waits {
			t.Error("a search of many bytes was short")
		}
	}
	// If no slot for short work is left either, the work waits, too.
	for range shortSlots {
		release, err := service.Short.Take(t.Context(), "somebody", false)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
	if err := list(short, 0, 1).Next(gone, nil); !errors.Is(err, ErrBusy) {
		t.Errorf("short work without a turn: %v", err)
	}
}
