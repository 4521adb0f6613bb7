package anchorer

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/partition"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/schema"
)

func run(t *testing.T, text string) partition.Run {
	t.Helper()
	p, err := partition.Parse(text)
	must(t, err)
	return p
}

func TestMarksBecomeOne(t *testing.T) {
	t.Parallel()
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	m := marks{{run(t, "00-3f"), 10, at(1)}, {run(t, "40-7f"), 30, at(3)}, {run(t, "80-8f"), 20, at(2)}}
	if m.lowest() != 10 || m.highest() != 30 {
		t.Errorf("from %d to %d", m.lowest(), m.highest())
	}
	for _, c := range []struct {
		partition int
		seq       uint64
		want      bool
	}{{0, 10, false}, {0x3f, 11, true}, {0x40, 30, false}, {0x40, 31, true}, {0x8f, 21, true}, {0x90, 99, false}} {
		if got := m.wants(c.partition, c.seq); got != c.want {
			t.Errorf("%x at %d: %v", c.partition, c.seq, got)
		}
	}
	if got, want := m.moved(25, at(4)), (marks{{m[0].Run, 25, at(4)}, m[1], {m[2].Run, 25, at(4)}}); !reflect.DeepEqual(got, want) {
		t.Errorf("moved to 25: %v", got)
	}
	if got, want := m.moved(30, at(5)), (marks{{run(t, "00-8f"), 30, at(5)}}); !reflect.DeepEqual(got, want) {
		t.Errorf("moved to 30: %v", got)
	}
}

// named runs an anchorer for some partitions whose events say who it is.
func (w *world) named(name string, p partition.Run) *process {
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
	for ok := false; !ok; pause(w.t.Context(), 5*time.Millisecond) {
		p.status.set(func(s *status) {
			ok = s.session == nil && s.standby == standby && (s.working == 0) == standby
		})
		if time.Now().After(deadline) {
			w.t.Fatal("an anchorer is not what it should be")
		}
	}
}

// workers says who cut the newest batch of each owner.
func workers(all map[events.Owner]*history) map[events.Owner]string {
	by := map[events.Owner]string{}
	for key, h := range all {
		by[key], _, _ = strings.Cut(h.cut[len(h.cut)-1], ".")
	}
	return by
}

// bothHalves makes owners, at least two in either half of the partitions.
func (w *world) bothHalves() (lower, upper []events.Owner) {
	w.t.Helper()
	for len(lower) < 3 || len(upper) < 3 {
		key := newOwnerKey()
		w.write(key, 1)
		if partition.Of(key) < 0x80 {
			lower = append(lower, key)
		} else {
			upper = append(upper, key)
		}
	}
	return lower, upper
}

// Two anchorers share the owners; one of them dies, and its standby goes on.
// Then one takes over all.
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
	w.named("all", partition.All)
	wantWorkers("all", "all")
	if got := w.checkpoints(); got != 1 {
		t.Errorf("one anchorer has %d checkpoints", got)
	}
}

// checkpoints counts those that there are, which together cover everything.
func (w *world) checkpoints() (rows int) {
	w.t.Helper()
	var covered int
	err := w.pool().QueryRow(w.t.Context(), `SELECT count(*), sum(last - first + 1) FROM ledger_anchor.checkpoints`).Scan(&rows, &covered)
	w.must(err)
	if covered != partition.Count {
		w.t.Errorf("the checkpoints cover %d partitions", covered)
	}
	return rows
}

// An anchorer of everything is killed anywhere, and two go on, each with its
// half of the owners that were packed together.
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

// Tables of another build are left alone while somebody works on them, and made
// anew after that.
func TestTablesAreMadeAnewByOneAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.owners(2)
	first, second := w.named("first", run(t, "00-7f")), w.named("second", run(t, "80-ff"))
	w.comes(first, false)
	w.comes(second, false)
	w.allAnchored()
	second.stop()
	pool := w.pool()
	_, err := pool.Exec(t.Context(), `UPDATE ledger_anchor.about SET version = version - 1`)
	w.must(err)
	second = w.named("second", run(t, "80-ff"))
	w.comes(second, true)
	w.comes(first, false)
	first.stop()
	w.comes(second, false)
	var leftovers int
	w.must(pool.QueryRow(t.Context(), `SELECT count(*) FROM ledger_anchor.checkpoints WHERE first = 0 AND seq > 0`).Scan(&leftovers))
	if leftovers != 0 {
		t.Error("the old tables are still there")
	}
	w.owners(4)
	w.named("first", run(t, "00-7f"))
	w.allAnchored()
}

// Whoever lost the turn without knowing saves nothing over what the next one folded, and
// makes nothing anew: the locks belong to a connection, the rows to who moved them last.
func TestTheCheckpointIsAFence(t *testing.T) {
	t.Parallel()
	pool, err := schema.OpenPool(t.Context(), pgtest.Database(t), "ledger", 2)
	must(t, err)
	t.Cleanup(pool.Close)
	conn, err := pool.Acquire(t.Context())
	must(t, err)
	defer conn.Release()
	must(t, makeTables(t.Context(), conn.Conn()))
	open := func() *store {
		s, err := openStore(t.Context(), pool, partition.All, rowKey{}, nil)
		must(t, err)
		return s
	}
	now := time.Now()
	was, is := open(), open()
	o := newOwner(newOwnerKey())
	must(t, o.leaf(&events.MemoryWritten{LeafHash: events.Hash{1}}, now))
	must(t, is.save(t.Context(), folded{to: 7, stored: now, owners: []*owner{o}, spent: map[string]uint64{"2026-01-02": 5}}))
	if err := was.save(t.Context(), folded{to: 7, stored: now, owners: []*owner{newOwner(o.key)}, spent: map[string]uint64{"2026-01-02": 5}}); !errors.Is(err, errFenced) {
		t.Errorf("saved by who lost the turn: %v", err)
	}
	if err := was.renew(t.Context(), conn.Conn()); !errors.Is(err, errFenced) {
		t.Errorf("made anew by who lost the turn: %v", err)
	}
	kept, err := is.load(t.Context(), []events.Owner{o.key})
	must(t, err)
	spent, err := is.spentOn(t.Context(), "2026-01-02")
	must(t, err)
	if len(kept) != 1 || kept[0].size() != 1 || spent != 5 || open().marks.lowest() != 7 {
		t.Errorf("kept %v, %d lamports, at %d", kept, spent, open().marks.lowest())
	}
	must(t, is.renew(t.Context(), conn.Conn()))
	if kept, err = is.load(t.Context(), []events.Owner{o.key}); err != nil || len(kept) != 0 {
		t.Errorf("made anew it has %v, %v", kept, err)
	}
}
