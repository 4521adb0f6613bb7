package recall

import (
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/test/heap"
)

// TestAKeptQueryIsNoLongerThanItSeems: the cache keeps 1,024 queries, and a body may have a
// mebibyte.
func TestAKeptQueryIsNoLongerThanItSeems(t *testing.T) { // not parallel: it measures the heap
	const queries = 64
	c, before := NewVectorCache(1<<20), heap.Live()
	for i := range queries {
		for _, text := range []string{
			"short" + strconv.Itoa(i) + ` -"` + strings.Repeat("excluded ", 50_000) + `"`,
			"long" + strconv.Itoa(i) + strings.Repeat("x", 500_000),
		} {
			c.putQuery(queryKey{"owner", ParseQuery(text).asked()}, vector{1}, 0)
		}
	}
	if grown := heap.Live() - before; grown > 2*queries*2*maxTextBytes {
		t.Errorf("%d queries take %d bytes", c.queries.Len(), grown)
	}
	runtime.KeepAlive(c)
}
