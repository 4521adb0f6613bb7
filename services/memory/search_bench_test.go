package memory

import (
	"fmt"
	"strings"
	"testing"
)

// searched is the data of benchmarks: texts by number, and a query that a known number of
// them contain.
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

// BenchmarkSearch searches 100,000 memories: cold and warm.
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
		if _, err := h.pool.Exec(b.Context(), `ANALYZE memories`); err != nil {
			b.Fatal(err)
		}
		once := func(b *testing.B, s *Service) {
			if found, _, err := searchAll(b, s, w.owner, c.query); err != nil || len(found) != c.found {
				b.Fatal(len(found), err)
			}
		}
		b.Run(c.name+"/first", func(b *testing.B) {
			for b.Loop() {
				once(b, h.service(1<<30))
			}
		})
		b.Run(c.name+"/warm", func(b *testing.B) {
			s := h.service(1 << 30)
			once(b, s)
			for b.Loop() {
				once(b, s)
			}
		})
	}
}
