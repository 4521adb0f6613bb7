package audit

import (
	"fmt"
	"testing"
)

// TestUniques: a reused id is found, wherever its first use is. Equal ids of different
// kinds are different ids, and so are ids that split the same text into other parts.
func TestUniques(t *testing.T) {
	t.Parallel()
	const ids = 100_000
	again := map[uint64]uint64{ // sequence -> the sequence whose id it repeats
		7: 3, 50_005: 4, 90_009: 70_011, ids - 1: 1, ids: ids - 2,
	}
	var u uniques
	for seq := uint64(1); seq <= ids; seq++ {
		id := seq
		if first, repeats := again[seq]; repeats {
			id = first
		}
		u.add(idEvent, seq, fmt.Sprint(id))
	}
	for _, other := range []struct {
		kind  idKind
		parts []string
	}{{idCommand, []string{"1"}}, {idEvent, []string{"1", ""}}, {idIdempotency, []string{"1", "23"}}, {idIdempotency, []string{"12", "3"}}} {
		u.add(other.kind, ids+1, other.parts...)
	}
	u.twice(func(kind idKind, first, repeated uint64) {
		if kind != idEvent || again[repeated] != first {
			t.Errorf("%s of %d again at %d", idNames[kind], first, repeated)
		}
		delete(again, repeated)
	})
	if len(again) > 0 {
		t.Errorf("not found: %v", again)
	}
}
