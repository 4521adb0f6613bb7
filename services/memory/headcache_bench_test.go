package memory

import "testing"

// BenchmarkFreshHead reads the extent of a log with many retracted leaves.
func BenchmarkFreshHead(b *testing.B) {
	const retracted = 100_000
	h := newHistory(b)
	w := h.writer(b)
	if _, err := h.pool.Exec(b.Context(), `INSERT INTO retractions SELECT $1, leaf, gen_random_uuid(), now(), leaf FROM generate_series(1, $2::bigint) leaf`,
		string(w.owner), retracted); err != nil {
		b.Fatal(err)
	}
	s := h.service(0)
	b.ReportAllocs()
	for b.Loop() {
		if e, err := s.readExtent(b.Context(), Reader{Owner: w.owner}); err != nil || len(e.without.retracted) != retracted {
			b.Fatal(len(e.without.retracted), err)
		}
	}
}
