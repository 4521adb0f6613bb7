package audit

import (
	"fmt"
	"os"
	"testing"
)

// Ids are found again wherever the first of them is: in memory, in the same
// spill, in an earlier one. Kinds do not mix.
func TestUniquesAcrossSpills(t *testing.T) {
	t.Parallel()
	const ids = 2*idInMemory + 1000
	again := map[uint64]uint64{ // sequence -> the sequence whose id it repeats
		7: 3, idInMemory + 5: 4, 2*idInMemory + 9: idInMemory + 11, ids - 1: 1, ids: ids - 2,
	}
	u := uniques{digests: newDigester()}
	for seq := uint64(1); seq <= ids; seq++ {
		id := seq
		if first, repeats := again[seq]; repeats {
			id = first
		}
		if err := u.add(idEvent, seq, fmt.Sprint(id)); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []struct {
		kind  idKind
		parts []string
	}{{idCommand, []string{"1"}}, {idEvent, []string{"1", ""}}, {idIdempotency, []string{"1", "23"}}, {idIdempotency, []string{"12", "3"}}} {
		if err := u.add(other.kind, ids+1, other.parts...); err != nil {
			t.Fatal(err)
		}
	}
	if len(u.ends) != 2 {
		t.Errorf("%d spills", len(u.ends))
	}
	err := u.twice(func(kind idKind, first, repeated uint64) {
		if kind != idEvent || again[repeated] != first {
			t.Errorf("%s of %d again at %d", idNames[kind], first, repeated)
		}
		delete(again, repeated)
	})
	if err != nil || len(again) > 0 {
		t.Errorf("not found: %v, %v", again, err)
	}
	file := u.spilled.Name()
	u.close()
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
}
