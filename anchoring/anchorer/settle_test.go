package anchorer

import (
	"fmt"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/projections/projector"
)

// Transactions in flight are not paid yet, the reserve of the authority's own account
// must stay, and spending counts on the UTC day on which it happened.
func TestWhatIsLeftToSpend(t *testing.T) {
	t.Parallel()
	l := newLone(t)
	l.now = time.Date(2026, 2, 28, 20, 0, 0, 0, time.FixedZone("", -5*3600)) // March 1 in UTC
	must(t, errorOf(l.store.pool.Exec(t.Context(), `INSERT INTO ledger_anchor.spending (day, lamports) VALUES ('2026-02-28', 1), ('2026-03-01', 700000)`)))
	l.flights = map[string]*flight{"s": {owners: []*owner{l.owner(1, 2), l.owner(1, 2)}}}
	const reserve, pending = 890_000, 2 * signatureCharge
	for _, c := range []struct {
		balance, bound, left uint64
		short                error
	}{
		{reserve + pending + 1, 0, 1, errUnfunded},
		{reserve + pending, 0, 0, errUnfunded},
		{reserve - 1, 0, 0, errUnfunded},
		{1 << 40, 700_000 + pending + 1, 1, errBound},
		{1 << 40, 700_000 + pending, 0, errBound},
		{1 << 40, 1, 0, errBound},
		{reserve + pending + 1, 1 << 40, 1, errUnfunded},
	} {
		l.cfg.Chain, l.cfg.MaxLamportsPerDay = fundedChain{balance: c.balance, reserve: reserve}, c.bound
		if left, short, err := l.budget(t.Context()); err != nil || left != c.left || short != c.short {
			t.Errorf("%d lamports, bound to %d: %d left, short is %v, %v", c.balance, c.bound, left, short, err)
		}
	}
}

// comes waits until a process works, or stands by.
func (w *world) comes(p *process, standby bool) {
	w.t.Helper()
	testkit.Await(w.t, "an anchorer is what it should be", func() bool {
		s := p.folding.Status()
		return s.Err == nil && (s.State == projector.Standby) == standby && s.Works() != standby
	})
}

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
