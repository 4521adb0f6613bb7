package memory

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkRecall ranks 100,000 memories of 100 to 450 bytes with queries of six words:
// once cold, and 300 times warm. The word frequencies follow Zipf's law, as in English.
func BenchmarkRecall(b *testing.B) {
	h := newHistory(b)
	w := h.writer(b)
	r := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(r, 1.07, 4, 30_000)
	text := func(bytes int) string {
		var s strings.Builder
		for s.Len() < bytes {
			n := zipf.Uint64()
			fmt.Fprintf(&s, "%s%s ", syllables[n%61%uint64(len(syllables))], spell(n))
		}
		return strings.TrimSpace(s.String())
	}
	bytes := 0
	for n := 0; n < 100_000; n += 2000 {
		texts := make([]string, 2000)
		for i := range texts {
			texts[i] = text(100 + r.IntN(340))
			bytes += len(texts[i])
		}
		h.write(b, w, texts...)
	}
	if _, err := h.pool.Exec(b.Context(), `ANALYZE memories`); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s := h.service(1 << 30)
		ask := func() time.Duration {
			began := time.Now()
			picked, err := s.Select(b.Context(), Reader{Owner: w.owner}, Selection{Query: text(35), Ranked: true, Order: Relevance, Limit: 10}, nil)
			if err != nil {
				b.Fatal(err)
			}
			for picked.More() {
				if err := picked.Next(b.Context(), func(*View) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
			return time.Since(began)
		}
		first := ask()
		warm := make([]time.Duration, 300)
		for i := range warm {
			warm[i] = ask()
		}
		slices.Sort(warm)
		b.ReportMetric(first.Seconds()*1000, "first-ms")
		b.ReportMetric(warm[len(warm)/2].Seconds()*1000, "warm-p50-ms")
		b.ReportMetric(warm[len(warm)*99/100].Seconds()*1000, "warm-p99-ms")
		b.ReportMetric(float64(s.Texts.Bytes())/float64(bytes), "kept/text")
	}
}

var syllables = []string{"ka", "lo", "mir", "ten", "su", "vel", "nor", "pa", "qui", "dra", "fe", "gol", "hu", "jin", "bres"}

// spell makes a word from a number, longer for rarer words.
func spell(n uint64) (word string) {
	for ; n > 0; n /= uint64(len(syllables)) {
		word += syllables[n%uint64(len(syllables))]
	}
	return word
}
