package anchorer

import (
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/projector"
)

func run(t *testing.T, text string) events.Partitions {
	t.Helper()
	p, err := events.ParsePartitions(text)
	must(t, err)
	return p
}

// named runs an anchorer for some partitions. The IDs in its events carry its name.
func (w *world) named(name string, p events.Partitions) *process {
	w.t.Helper()
	return w.start(nil, func(c *Config) {
		c.Partitions = p
		c.NewID = func() string { return name + "." + newID() }
	})
}

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

// workers returns the name of the anchorer that cut each owner's newest batch.
func workers(all map[events.Owner]*history) map[events.Owner]string {
	by := map[events.Owner]string{}
	for key, h := range all {
		by[key], _, _ = strings.Cut(h.cut[len(h.cut)-1], ".")
	}
	return by
}

// bothHalves makes owners, at least three in each half of the partitions.
func (w *world) bothHalves() (lower, upper []events.Owner) {
	w.t.Helper()
	for len(lower) < 3 || len(upper) < 3 {
		key := newOwnerKey()
		w.write(key, 1)
		if events.PartitionOf(key) < 0x80 {
			lower = append(lower, key)
		} else {
			upper = append(upper, key)
		}
	}
	return lower, upper
}

// Two anchorers share the owners. One of them dies, and its standby continues. Later one
// anchorer takes over all owners.
func TestPartitionsAreSharedAndTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	low, high := run(t, "00-7f"), run(t, "80-ff")
	lower, upper := w.bothHalves()
	more := func() {
		for _, key := range append(lower, upper...) {
			w.write(key, 2)
		}
	}
	wantWorkers := func(forLower, forUpper string) {
		t.Helper()
		by := workers(w.allAnchored())
		for _, key := range lower {
			if by[key] != forLower {
				t.Errorf("%s worked in the lower half, not %s", by[key], forLower)
			}
		}
		for _, key := range upper {
			if by[key] != forUpper {
				t.Errorf("%s worked in the upper half, not %s", by[key], forUpper)
			}
		}
	}
	first, second := w.named("first", low), w.named("second", high)
	w.comes(first, false)
	w.comes(second, false)
	standby, overlapping := w.named("standby", low), w.named("overlapping", run(t, "40-bf"))
	w.comes(standby, true)
	w.comes(overlapping, true)
	wantWorkers("first", "second")
	more()
	wantWorkers("first", "second")

	first.stop()
	w.comes(standby, false)
	more()
	wantWorkers("standby", "second")
	w.comes(overlapping, true)

	standby.stop()
	second.stop()
	overlapping.stop()
	more()
	w.named("all", events.AllPartitions)
	wantWorkers("all", "all")
	if got := w.checkpoints(); got != 1 {
		t.Errorf("one anchorer has %d checkpoints", got)
	}
}

// checkpoints counts the checkpoints and checks that together they cover all partitions.
func (w *world) checkpoints() (rows int) {
	w.t.Helper()
	var covered int
	err := w.pool().QueryRow(w.t.Context(), `SELECT count(*), sum(last_partition - first_partition + 1) FROM ledger_anchor.checkpoint`).Scan(&rows, &covered)
	w.must(err)
	if covered != events.PartitionCount {
		w.t.Errorf("the checkpoints cover %d partitions", covered)
	}
	return rows
}

// An anchorer of all partitions is killed at some point. Two anchorers continue, each
// with half of the owners that were packed together.
func TestKilledAndShared(t *testing.T) {
	t.Parallel()
	for _, k := range []*killer{
		{point: "append BatchCut", count: 2, after: true},
		{point: "append BatchSubmitted", count: 1, after: true},
		{point: "append BatchSubmitted", count: 3},
		{point: "send", count: 1, after: true},
		{point: "append BatchConfirmed", count: 2},
		{point: "checkpoint", count: 2, after: true},
	} {
		t.Run(k.point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false)
			w.bothHalves()
			first := w.start(k, nil)
			select {
			case <-first.ended:
			case <-time.After(patience):
				t.Fatal("the anchorer never came to the point where it is killed")
			}
			w.named("low", run(t, "00-7f"))
			w.named("high", run(t, "80-ff"))
			w.allAnchored()
		})
	}
}

// Tables of another build are left alone while an anchorer works on them, and rebuilt
// after that.
func TestTablesAreMadeAnewByOneAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.owners(2)
	first, second := w.named("first", run(t, "00-7f")), w.named("second", run(t, "80-ff"))
	w.comes(first, false)
	w.comes(second, false)
	w.allAnchored()
	first.stop()
	second.stop()
	pool := w.pool()
	_, err := pool.Exec(t.Context(), `UPDATE ledger_anchor.about SET version = version - 1`)
	w.must(err)
	// The other build's anchorer of the lower half. It can't be one of this build: that one
	// would look at the version every second, and stop.
	other, err := pool.Acquire(t.Context())
	w.must(err)
	defer other.Release()
	_, err = other.Exec(t.Context(), `SELECT pg_advisory_lock_shared($1)`, projector.AloneKey(schemaName))
	w.must(err)
	second = w.named("second", run(t, "80-ff"))
	w.comes(second, true)
	var version, leftovers int
	w.must(pool.QueryRow(t.Context(), `SELECT version FROM ledger_anchor.about`).Scan(&version))
	if version != tablesVersion-1 {
		t.Error("the tables were made anew while another anchorer worked on them")
	}
	_, err = other.Exec(t.Context(), `SELECT pg_advisory_unlock_shared($1)`, projector.AloneKey(schemaName))
	w.must(err)
	w.comes(second, false)
	w.must(pool.QueryRow(t.Context(), `SELECT count(*) FROM ledger_anchor.checkpoint WHERE first_partition = 0 AND seq > 0`).Scan(&leftovers))
	if leftovers != 0 {
		t.Error("the old tables are still there")
	}
	w.owners(4)
	w.named("first", run(t, "00-7f"))
	w.allAnchored()
}
