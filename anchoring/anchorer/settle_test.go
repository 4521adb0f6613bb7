package anchorer

import (
	"context"
	"testing"
	"time"
)

// estate is a chain on which the authority's own account needs a rent reserve.
type estate struct {
	fundedChain
	reserve uint64
}

func (e estate) Rent(context.Context, int) (uint64, error) { return e.reserve, nil }

// Transactions in flight are not paid yet, the reserve of the authority's own account
// must stay, and spending counts on the UTC day on which it happened.
func TestWhatIsLeftToSpend(t *testing.T) {
	t.Parallel()
	l := newLone(t)
	l.now = time.Date(2026, 2, 28, 20, 0, 0, 0, time.FixedZone("", -5*3600)) // March 1 in UTC
	_, err := l.store.pool.Exec(t.Context(), `INSERT INTO ledger_anchor.spending (day, lamports) VALUES ('2026-02-28', 1), ('2026-03-01', 700000)`)
	must(t, err)
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
		l.cfg.Chain, l.cfg.MaxLamportsPerDay = estate{fundedChain{balance: c.balance}, reserve}, c.bound
		if left, short, err := l.budget(t.Context()); err != nil || left != c.left || short != c.short {
			t.Errorf("%d lamports, bound to %d: %d left, short is %v, %v", c.balance, c.bound, left, short, err)
		}
	}
}
