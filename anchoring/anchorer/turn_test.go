package anchorer

import (
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/projector"
)

// comes waits until a process works, or stands by.
func (w *world) comes(p *process, standby bool) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for ok := false; !ok; eventlog.Pause(w.t.Context(), 5*time.Millisecond) {
		s := p.folding.Status()
		ok = s.Err == nil && (s.State == projector.Standby) == standby && s.Works() != standby
		if time.Now().After(deadline) {
			w.t.Fatal("an anchorer is not what it should be")
		}
	}
}

// A standby takes over when the working anchorer ends.
func TestAStandbyTakesOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	keys := w.owners(4)
	first := w.start(nil, nil)
	w.comes(first, false)
	standby := w.start(nil, nil)
	w.comes(standby, true)
	w.allAnchored()
	first.stop()
	w.comes(standby, false)
	for _, key := range keys {
		w.write(key, 2)
	}
	w.allAnchored()
}
