package memory

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"weak"

	"github.com/memory-ledger/ledger/projections/pages"
	"github.com/memory-ledger/ledger/services/keystore"
)

// numbered is n texts from a number on.
func numbered(from, n int) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf("text number %d", from+i)
	}
	return texts
}

// forms says of each page that is kept whether it is texts (t), a full page of
// bodies (b), or one that is begun (-).
func forms(b *Bodies, w *writer) (all string) {
	o, ok := b.owners.Peek(w.owner)
	if !ok {
		return "nothing"
	}
	for _, p := range o.pages {
		switch {
		case p.texts != nil:
			all += "t"
		case p.begun():
			all += "-"
		default:
			all += "b"
		}
	}
	return all
}

// checkCharged counts all that is kept, page by page, and holds it against what
// was charged, owner by owner, and the budget.
func checkCharged(t *testing.T, b *Bodies) {
	t.Helper()
	var sum int64
	for _, owner := range b.owners.Keys() {
		o, _ := b.owners.Peek(owner)
		kept := int64(ownerOverhead)
		for n, p := range o.pages {
			kept += pageOverhead
			if p.texts != nil && bytes.Contains(p.texts.data, []byte(" number ")) {
				t.Errorf("page %d lies open", n)
			}
			switch {
			case p.texts != nil && p.bodies.Bytes() == 0:
				kept += int64(cap(p.texts.data))
			case p.texts == nil:
				kept += int64(p.bodies.Bytes())
			default:
				t.Errorf("page %d is kept twice", n)
			}
			if full := uint64(n+1) * pages.Leaves; p.end() > full || p.end() <= full-pages.Leaves || n < len(o.pages)-1 && p.end() != full {
				t.Errorf("page %d ends with leaf %d", n, p.end())
			}
			if !p.kept {
				t.Errorf("page %d is not marked as kept", n)
			}
		}
		if kept != o.bytes {
			t.Errorf("%d bytes kept, %d charged", kept, o.bytes)
		}
		sum += kept
	}
	if sum != b.Bytes() || sum > b.budget {
		t.Errorf("%d bytes kept, %d counted, %d allowed", sum, b.Bytes(), b.budget)
	}
}

// TestTextsTakeThePlaceOfFullPages: from the second search on, of what was kept
// before; what is begun, and what is too long, stays as it is.
func TestTextsTakeThePlaceOfFullPages(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w := h.writer(t)
	s := h.service(1 << 30)
	h.write(t, w, numbered(0, 3*pages.Leaves+10)...)
	var kept []int64
	for i, want := range []string{"bbb-", "ttt-", "ttt-"} {
		checkSearch(t, s, w, "search", "NUMBER 77")
		if got := forms(s.Bodies, w); got != want {
			t.Errorf("after %d searches %s is kept instead of %s", i+1, got, want)
		}
		checkCharged(t, s.Bodies)
		kept = append(kept, s.Bodies.Bytes())
	}
	// A nonce and a tag for a page instead of each body, and no header.
	if saved := kept[0] - kept[1]; saved != 3*(16+28*pages.Leaves-28) || kept[1] != kept[2] {
		t.Errorf("%d bytes were kept, then %d", kept[0], kept[1:])
	}
	// What comes later, and begins where a page was begun, is new once more.
	h.write(t, w, numbered(len(w.written), 2*pages.Leaves)...)
	// Of pages that are longer, the first two have a little too much to be looked
	// through without a pause.
	for _, length := range []int{yieldBytes * 5 / 4, yieldBytes * 5 / 4, maxTexts} {
		long := numbered(len(w.written), pages.Leaves)
		for i := range long {
			long[i] += strings.Repeat(" and more", length/pages.Leaves/9)
		}
		h.write(t, w, long...)
	}
	for i, want := range []string{"tttbbbbb-", "tttttttb-", "tttttttb-"} {
		checkSearch(t, s, w, "grown", "NUMBER 1")
		checkSearch(t, h.service(0), w, "not kept", "NUMBER 1")
		if got := forms(s.Bodies, w); got != want {
			t.Errorf("after %d more searches %s is kept instead of %s", i+1, got, want)
		}
		checkCharged(t, s.Bodies)
	}
}

// TestTextsFreeTheirPage: once the texts are kept, nothing holds on to the sealed
// bodies.
func TestTextsFreeTheirPage(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w := h.writer(t)
	s := h.service(1 << 30)
	h.write(t, w, numbered(0, 2*pages.Leaves+10)...)
	checkSearch(t, s, w, "first", "NUMBER 7")
	var bodies []weak.Pointer[byte]
	o, _ := s.Bodies.owners.Peek(w.owner)
	for _, p := range o.kept(0, o.size()) {
		for _, sealed := range p.bodies.Sealed {
			bodies = append(bodies, weak.Make(&sealed[0]))
			break
		}
	}
	runtime.GC()
	for i, b := range bodies {
		if b.Value() == nil {
			t.Errorf("page %d is not there after the first search", i)
		}
	}
	checkSearch(t, s, w, "second", "NUMBER 7")
	runtime.GC()
	for i, b := range bodies {
		if gone, want := b.Value() == nil, i < 2; gone != want {
			t.Errorf("page %d is gone: %v", i, gone)
		}
	}
	runtime.KeepAlive(s)
}

// TestOneOfManyKeepsTheTexts: of searches that make the same texts, whenever they
// are done, one is charged, and none for what is not kept any more.
func TestOneOfManyKeepsTheTexts(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w, other := h.writer(t), h.writer(t)
	h.write(t, w, numbered(0, 2*pages.Leaves+10)...)
	h.write(t, other, numbered(0, pages.Leaves)...)
	s := h.service(1 << 30)
	checkSearch(t, s, w, "first", "NUMBER 7")
	o, _ := s.Bodies.owners.Peek(w.owner)
	l := newLooker(w.key, &matcher{})
	var made []*texts
	for _, p := range o.kept(0, o.size()) {
		m, err := l.page(t.Context(), p, new([]match))
		if err != nil {
			t.Fatal(err)
		}
		if m != nil {
			made = append(made, m)
		}
	}
	if len(made) != 2 {
		t.Fatalf("texts of %d pages", len(made))
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() { s.Bodies.keepTexts(w.owner, made[0]) })
	}
	group.Wait()
	if got := forms(s.Bodies, w); got != "tb-" {
		t.Errorf("%s is kept", got)
	}
	checkCharged(t, s.Bodies)
	beyond := *made[1]
	for _, first := range []uint64{2 * pages.Leaves, 3 * pages.Leaves} { // begun, and not there
		beyond.first = first
		s.Bodies.keepTexts(w.owner, &beyond)
	}
	if got := forms(s.Bodies, w); got != "tb-" {
		t.Errorf("%s is kept, after texts for what is none", got)
	}
	s.Bodies.keepTexts(other.owner, made[1])
	s.Bodies.mu.Lock()
	s.Bodies.makeRoom(nil, s.Bodies.budget)
	s.Bodies.mu.Unlock()
	s.Bodies.keepTexts(w.owner, made[1])
	if n := s.Bodies.owners.Len(); n != 0 || s.Bodies.Bytes() != 0 {
		t.Errorf("%d owners, %d bytes are kept of nobody", n, s.Bodies.Bytes())
	}
	// Who was put out and came back is charged for the page that is there by now.
	checkSearch(t, s, w, "again", "NUMBER 7")
	s.Bodies.keepTexts(w.owner, made[1])
	if got := forms(s.Bodies, w); got != "bt-" {
		t.Errorf("%s is kept", got)
	}
	checkCharged(t, s.Bodies)
	checkSearch(t, s, w, "with both", "NUMBER 3")
}

// TestDamagedTextsAreNoAnswer: texts that are not what was sealed for their
// place fail every search that comes by, also one for what is in others.
func TestDamagedTextsAreNoAnswer(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w, other := h.writer(t), h.writer(t)
	h.write(t, w, numbered(0, 3*pages.Leaves)...)
	h.write(t, other, numbered(0, 3*pages.Leaves)...)
	kept := func(w *writer) (*Service, []leafPage) {
		s := h.service(1 << 30)
		for range 2 {
			checkSearch(t, s, w, "whole", "NUMBER 3")
		}
		o, _ := s.Bodies.owners.Peek(w.owner)
		if got := forms(s.Bodies, w); got != "ttt" {
			t.Fatalf("%s is kept", got)
		}
		return s, o.pages
	}
	_, others := kept(other)
	const ids, sealed = idSize * pages.Leaves, idSize*pages.Leaves + 12
	flip := func(at int) func(*texts, []leafPage) {
		return func(p *texts, _ []leafPage) { p.data[(at+len(p.data))%len(p.data)] ^= 1 }
	}
	for name, damage := range map[string]func(page *texts, all []leafPage){
		"an id":                flip(ids - 1),
		"a nonce":              flip(ids),
		"where a text ends":    flip(sealed + 3),
		"a text":               flip(sealed + endSize*pages.Leaves),
		"the tag":              flip(-1),
		"cut short":            func(p *texts, _ []leafPage) { p.data = p.data[:len(p.data)-1] },
		"nothing but ids":      func(p *texts, _ []leafPage) { p.data = p.data[:ids] },
		"fewer leaves":         func(p *texts, _ []leafPage) { p.leaves-- },
		"the page before":      func(p *texts, all []leafPage) { p.data = all[0].texts.data },
		"another first leaf":   func(p *texts, _ []leafPage) { p.first -= pages.Leaves },
		"somebody else's page": func(p *texts, _ []leafPage) { *p = *others[1].texts },
	} {
		t.Run(name, func(t *testing.T) {
			s, all := kept(w)
			damage(all[1].texts, all)
			for range 2 {
				if found, _, err := search(t, s, w.owner, "NUMBER 3"); !errors.Is(err, keystore.ErrSealed) {
					t.Errorf("%d found, %v", len(found), err)
				}
			}
		})
	}
}

// TestLongTextsAreLookedThroughInParts: what is gone through without a pause is
// bounded, a text may come on top, and nothing is left out.
func TestLongTextsAreLookedThroughInParts(t *testing.T) {
	t.Parallel()
	for _, length := range []int{0, 1, 100, 700, yieldBytes - 1, yieldBytes, MaxContentBytes} {
		ends := make([]uint32, pages.Leaves)
		for i := range ends {
			ends[i] = uint32((i + 1) * length)
		}
		l, start, parts := looker{}, 0, 0
		for from, to := 0, 0; from < len(ends); from = to {
			if to = l.some(ends, from, start); to <= from {
				t.Fatalf("nothing comes after text %d", from)
			}
			end := int(ends[to-1])
			if end-start >= yieldBytes+max(1, length) {
				t.Errorf("%d bytes of texts of %d at once", end-start, length)
			}
			start = end
			parts++
		}
		if most := pages.Leaves*length/yieldBytes + 1; parts > most {
			t.Errorf("texts of %d are looked through in %d parts", length, parts)
		}
	}
}
