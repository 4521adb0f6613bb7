package anchorer

import (
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
