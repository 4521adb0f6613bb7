package memory

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/projections/pages"
	"github.com/memory-ledger/ledger/services/keystore"
)

// searched is what benchmarks look through: texts by number, and a query that is
// in so many.
var searched = []struct {
	name, text, query string
	found             int
}{
	{"100 bytes", short, "NUMBER 50000: THE", 1},
	{"100 bytes, words", short, "Warm Roof", 0},
	{"450 bytes", short + strings.Repeat("; it wakes, stretches, looks for its bowl and finds that it was filled", 5), "NUMBER 50000: THE", 1},
	{"not ASCII", "Erinnerung Nummer %d: die Katze schläft auf dem wärmsten Stuhl, während Regen übers Dach läuft", "NUMMER 50000: DIE KATZE SCHLÄFT", 1},
}

const short = "memory number %d: the cat sleeps on the warm chair while rain falls on the roof at noon"

// BenchmarkSearch searches 100,000 memories: for the first time, for the second
// (which keeps texts), again, and for the first time without pages.
func BenchmarkSearch(b *testing.B) {
	for _, c := range searched {
		h := newHistory(b)
		w := h.writer(b)
		for n := 0; n < 100_000; n += 2000 {
			texts := make([]string, 2000)
			for i := range texts {
				texts[i] = fmt.Sprintf(c.text, n+i)
			}
			h.write(b, w, texts...)
		}
		if _, err := h.pool.Exec(b.Context(), `ANALYZE memories; ANALYZE body_pages`); err != nil {
			b.Fatal(err)
		}
		once := func(b *testing.B, s *Service) {
			if found, _, err := search(b, s, w.owner, c.query); err != nil || len(found) != c.found {
				b.Fatal(len(found), err)
			}
		}
		b.Run(c.name+"/first", func(b *testing.B) {
			for b.Loop() {
				once(b, h.service(1<<30))
			}
		})
		b.Run(c.name+"/second", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				s := h.service(1 << 30)
				once(b, s)
				b.StartTimer()
				once(b, s)
			}
		})
		b.Run(c.name+"/warm", func(b *testing.B) {
			s := h.service(1 << 30)
			once(b, s)
			once(b, s)
			for b.Loop() {
				once(b, s)
			}
		})
		if _, err := h.pool.Exec(b.Context(), `TRUNCATE body_pages`); err != nil {
			b.Fatal(err)
		}
		b.Run(c.name+"/without pages", func(b *testing.B) {
			for b.Loop() {
				once(b, h.service(1<<30))
			}
		})
	}
}

// BenchmarkOpenAndMatch is the part of a warm search that grows with the log:
// opening 100,000 texts and looking through them, on one processor: bodies one by
// one, bodies of which texts are made, and texts of a page together.
func BenchmarkOpenAndMatch(b *testing.B) {
	key, err := keys(b).FindOrCreate(b.Context(), logtest.Owner())
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range searched {
		all := sealedPages(b, key, 100_000, func(i int) string { return fmt.Sprintf(c.text, i) })
		m := newMatcher(c.query)
		look := func(b *testing.B, all []leafPage) []leafPage {
			l, found, made := newLooker(key, &m), []match(nil), []leafPage(nil)
			for _, page := range all {
				t, err := l.page(b.Context(), page, &found)
				if err != nil {
					b.Fatal(err)
				}
				if t != nil {
					page = leafPage{texts: t, kept: true}
				}
				made = append(made, page)
			}
			if len(found) != c.found || c.found == 1 && found[0].leaf != 50_000 {
				b.Fatal(found)
			}
			return made
		}
		fresh, kept := make([]leafPage, len(all)), make([]leafPage, len(all))
		for i, p := range all {
			fresh[i], kept[i] = leafPage{bodies: p}, leafPage{bodies: p, kept: true}
		}
		for _, v := range []struct {
			name  string
			pages []leafPage
		}{{"first", fresh}, {"second", kept}, {"warm", look(b, kept)}} {
			b.Run(c.name+"/"+v.name, func(b *testing.B) {
				for b.Loop() {
					look(b, v.pages)
				}
			})
		}
	}
}

// sealedPages is n texts, sealed.
func sealedPages(t testing.TB, key *keystore.OwnerKey, n int, text func(int) string) []pages.Page {
	var all []pages.Page
	for first := 0; first < n; first += pages.Leaves {
		leaves := make([]pages.Leaf, min(pages.Leaves, n-first))
		for i := range leaves {
			id := uuid.New()
			sealed, err := key.Seal(id.String(), text(first+i))
			if err != nil {
				t.Fatal(err)
			}
			leaves[i] = pages.Leaf{ID: id, Sealed: sealed}
		}
		all = append(all, pages.Of(uint64(first), leaves))
	}
	return all
}
