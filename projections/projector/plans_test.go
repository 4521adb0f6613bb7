package projector_test

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
)

// planning notes which commits of its one connection dropped the plans.
type planning struct {
	dropped          bool
	commits, replans []uint64 // by their position
}

func (*planning) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (*planning) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (p *planning) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	p.dropped = p.dropped || data.SQL == "DISCARD PLANS"
}

func (*planning) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (*planning) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (p *planning) applied(position uint64) {
	if p.commits = append(p.commits, position); p.dropped {
		p.replans = append(p.replans, position)
	}
	p.dropped = false
}

// pool returns a pool whose connections p watches.
func (p *planning) pool(t *testing.T, plain *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	return fixture.Reopened(t, plain, func(c *pgx.ConnConfig) { c.Tracer = p })
}

// TestNoPlanOutlivesADoublingOfTheLog, for a projector that begins with empty tables and
// for one that continues.
func TestNoPlanOutlivesADoublingOfTheLog(t *testing.T) {
	t.Parallel()
	_, pool, log := empty(t)
	history := fixture.NewHistory(54, 3)
	begin := uint64(0)
	for _, messages := range []int{3500, 300} {
		log.Publish(t, history.Messages(messages)...)
		var p planning
		_, stop := project(t, p.pool(t, pool), log, func(c *projector.Config) { c.SliceRecords, c.Applied = 100, p.applied })
		caughtUp(t, pool, log)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		var want []uint64
		for next, i := 2*begin+1000, 0; i < len(p.commits); i++ {
			if at := p.commits[i]; at >= next {
				want, next = append(want, at), 2*at+1000
			}
		}
		if !slices.Equal(p.replans, want) || begin == 0 && len(want) != 2 {
			t.Errorf("from %d on: plans are dropped at %v, want %v", begin, p.replans, want)
		}
		begin = head(t, log)
	}
}

// TestNoPlanOutlivesADoublingInAReplay, which begins with empty tables.
func TestNoPlanOutlivesADoublingInAReplay(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	var p planning
	r := replayed(t, p.pool(t, pool), recorded(t, fixture.NewHistory(55, 3).Messages(1200)...), 1, readmodel.All()...)
	r.Applied = p.applied
	for _, to := range []uint64{10, 20, 1019, 1100, 1200} {
		if err := r.To(t.Context(), to); err != nil {
			t.Fatal(err)
		}
	}
	if want := []uint64{10, 1100}; !slices.Equal(p.replans, want) {
		t.Errorf("plans are dropped at %v, want %v", p.replans, want)
	}
}
