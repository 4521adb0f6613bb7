package recall

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/keystore/keystoretest"
	"github.com/memory-ledger/ledger/services/search"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func random(r *rand.Rand, dimensions int) []float64 {
	v := make([]float64, dimensions)
	for i := range v {
		v[i] = r.NormFloat64()
	}
	return v
}

// TestQuantizedCosines: cosines of quantized vectors are within a hundredth of those of
// the embeddings.
func TestQuantizedCosines(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		a, b := random(r, 384), random(r, 384)
		for i := range b {
			b[i] += a[i] * 2
		}
		product, squareA, squareB := 0.0, 0.0, 0.0
		for i := range a {
			product, squareA, squareB = product+a[i]*b[i], squareA+a[i]*a[i], squareB+b[i]*b[i]
		}
		query := quantize(a)
		page := (&vectorPage{}).with([]int{0}, []vector{quantize(b)})
		got, want := page.cosine(0, query, query.norm()), product/math.Sqrt(squareA*squareB)
		if math.Abs(float64(got)-want) > 0.01 {
			t.Fatalf("%f, want %f", got, want)
		}
	}
}

// TestVectorPages: a page knows which leaves are missing. A refused text is near nothing,
// and is not missing.
func TestVectorPages(t *testing.T) {
	t.Parallel()
	p := (&vectorPage{}).with([]int{3, 1}, []vector{quantize([]float64{1, 0}), nil})
	query := quantize([]float64{1, 0})
	for leaf, want := range []bool{false, true, false, true, false} {
		if p.has(leaf, 2) != want {
			t.Errorf("leaf %d", leaf)
		}
	}
	if p.missing(5, 2) != 3 || p.missing(5, 3) != 5 {
		t.Error("other leaves are missing")
	}
	if p.cosine(1, query, query.norm()) != 0 || p.cosine(3, query, query.norm()) != 1 {
		t.Error("wrong cosines")
	}
	if more := p.with([]int{0}, []vector{quantize([]float64{1, 2, 3})}); more.has(3, 2) || !more.has(0, 3) {
		t.Error("vectors of other dimensions stay")
	}
	if z := quantize([]float64{0, 0}); z.norm() >= 0 {
		t.Error("a zero embedding has a direction")
	}
}

// TestVectorTable: a page loads as it was saved, and only with its owner, place, model
// and key. An altered page counts as lost. The stored page is sealed.
func TestVectorTable(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	pool, err := schema.OpenPool(t.Context(), url, schema.Live, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	var table *VectorTable
	for range 2 { // the second call changes nothing
		if table, err = OpenVectorTable(t.Context(), pool, "one"); err != nil {
			t.Fatal(err)
		}
	}
	keys := keystoretest.Start(t)
	ranges := make([]search.Range, 2)
	for i := range ranges {
		ranges[i].Owner = logtest.Owner()
		if ranges[i].Key, err = keys.FindOrCreate(t.Context(), ranges[i].Owner, 0); err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	page := (&vectorPage{}).with([]int{0, 1}, []vector{quantize(random(r, 64)), quantize(random(r, 64))})
	if err := table.save(t.Context(), ranges[0], 7, page); err != nil {
		t.Fatal(err)
	}
	load := func(table *VectorTable, r search.Range, number uint64) *vectorPage {
		t.Helper()
		p, err := table.load(t.Context(), r, number)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if got := load(table, ranges[0], 7); !slices.Equal(got.vectors, page.vectors) {
		t.Error("another page comes back")
	}
	var sealed []byte
	if err := pool.QueryRow(t.Context(), `SELECT sealed FROM ledger_vectors.pages`).Scan(&sealed); err != nil || bytes.Contains(sealed, unsigned(page.vectors)[:16]) {
		t.Errorf("it is not sealed, or %v", err)
	}
	shorter := (&vectorPage{}).with([]int{0}, []vector{quantize(random(r, 64))})
	if err := table.save(t.Context(), ranges[0], 7, shorter); err != nil || len(load(table, ranges[0], 7).norms) != 2 {
		t.Errorf("a shorter page replaces it: %v", err)
	}
	other := search.Range{Owner: ranges[0].Owner, Key: ranges[1].Key}
	for name, got := range map[string]*vectorPage{
		"owner": load(table, ranges[1], 7), "page": load(table, ranges[0], 8), "key": load(table, other, 7), "model": load(&VectorTable{pool, "two"}, ranges[0], 7),
	} {
		if len(got.norms) != 0 {
			t.Errorf("it opens for another %s", name)
		}
	}
	for _, change := range []string{
		`UPDATE ledger_vectors.pages SET page = 9`, `UPDATE ledger_vectors.pages SET page = 7, leaves = 1`,
		`UPDATE ledger_vectors.pages SET leaves = 2, sealed = set_byte(sealed, 20, get_byte(sealed, 20) # 1)`, `UPDATE ledger_vectors.pages SET sealed = ''`,
	} {
		if _, err := pool.Exec(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		if len(load(table, ranges[0], 7).norms)+len(load(table, ranges[0], 9).norms) != 0 {
			t.Errorf("it opens after %s", change)
		}
	}
}

// TestVectorCache: the cache stays within its budget. A dropped page is gone, even if it
// was being made meanwhile.
func TestVectorCache(t *testing.T) {
	t.Parallel()
	page := (&vectorPage{}).with([]int{0}, []vector{quantize(random(rand.New(rand.NewPCG(1, 2)), 1000))})
	c := NewVectorCache(3 * page.bytes())
	for n := range uint64(5) {
		c.put(vectorKey{owner, n}, page, 0)
	}
	if c.get(vectorKey{owner, 1}) != nil || c.get(vectorKey{owner, 2}) == nil || c.Bytes() != 3*page.bytes() {
		t.Errorf("%d bytes are kept", c.Bytes())
	}
	c.putQuery(queryKey{owner, "q"}, vector{1}, 0)
	c.Drop(owner)
	c.put(vectorKey{owner, 1}, page, 0)
	c.putQuery(queryKey{owner, "q"}, vector{1}, 0)
	if c.get(vectorKey{owner, 1}) != nil || c.query(queryKey{owner, "q"}) != nil || c.Bytes() != 0 {
		t.Errorf("%d bytes are left", c.Bytes())
	}
}
