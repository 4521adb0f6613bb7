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

// Tables of another build are left alone while an anchorer works on them, and rebuilt
// after that.
func TestTablesAreMadeAnewByOneAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.owners(2)
	w.start(nil, nil).waitAnchored(w).stop()
	pool := w.pool()
	_, err := pool.Exec(t.Context(), `UPDATE ledger_anchor.about SET version = version - 1`)
	w.must(err)
	// The other build's anchorer. It can't be one of this build: that one would look at the
	// version every second, and stop.
	other, err := pool.Acquire(t.Context())
	w.must(err)
	defer other.Release()
	_, err = other.Exec(t.Context(), `SELECT pg_advisory_lock_shared($1)`, projector.AloneKey(schemaName))
	w.must(err)
	p := w.start(nil, nil)
	w.comes(p, true)
	var version int
	w.must(pool.QueryRow(t.Context(), `SELECT version FROM ledger_anchor.about`).Scan(&version))
	if version != tablesVersion-1 {
		t.Error("the tables were made anew while another anchorer worked on them")
	}
	_, err = other.Exec(t.Context(), `SELECT pg_advisory_unlock_shared($1)`, projector.AloneKey(schemaName))
	w.must(err)
	w.comes(p, false)
	w.owners(4)
	w.allAnchored()
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
