package anchorer

import (
	"fmt"
	"testing"
	"time"
)

// TestKilledAnywhere kills the anchorer at every point, before the action or after it
// with the answer lost. Then another anchorer finishes the work.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	points := []struct {
		name    string
		counts  []int32
		refused int // of the owners' commits
	}{
		{"append BatchCut", []int32{1}, 0},
		{"append BatchSubmitted", []int32{1, 3}, 0},
		{"append BatchConfirmed", []int32{3}, 0},
		{"append BatchFailed", []int32{1, 3}, 1}, // while it gives up a refused pack
		{"send", []int32{1}, 0},
		{"status", []int32{1}, 0},
		{"account", []int32{1}, 0},
		{"checkpoint", []int32{1, 3}, 0},
	}
	for _, p := range points {
		for _, count := range p.counts {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %d after=%v", p.name, count, after), func(t *testing.T) {
					t.Parallel()
					killedOnce(t, &killer{point: p.name, count: count, after: after}, p.refused)
				})
			}
		}
	}
}

func killedOnce(t *testing.T, k *killer, refused int) {
	w := newWorld(t, false)
	keys := w.owners(3 + refused)
	bad := keys[3:]
	for _, key := range bad {
		w.fork(key, 1)
	}
	first := w.start(k, nil)
	select {
	case <-first.ended:
	case <-time.After(patience):
		t.Fatal("the anchorer never came to the point where it is killed")
	}
	w.write(keys[0], 2) // writes continue
	w.start(nil, nil)
	w.allAnchored(bad...)
	w.write(keys[1], 1)
	w.allAnchored(bad...)
}
