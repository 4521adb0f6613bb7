package rebuild_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/readmodel"
	"github.com/memory-ledger/ledger/projections/rebuild"
)

// TestADifferenceSaysWhereAndWhat: a difference names the row by its key, the column, and
// both values. A value may be missing, or too long to be shown. Rows beside the damaged
// row are not reported.
func TestADifferenceSaysWhereAndWhat(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	s := newStage(t)
	a := s.fill(1, 3)[0]
	batch := fixture.UUID()
	a.Append(t, s.log, &events.BatchCut{BatchID: batch, Size: 3})
	s.caughtUp()
	leaf, root := func(i int) string { return fmt.Sprintf("memories %s %d", a.Owner, i) }, "root of "+string(a.Owner)
	for damage, want := range map[string][]string{
		`UPDATE memories SET metadata = repeat('x', 81) WHERE leaf_index = 1`: {
			leaf(1) + ` metadata: live "` + strings.Repeat("x", 80) + `"… (81 characters), rebuilt "{\"n\":1}"`},
		`UPDATE batches SET signature = ''`:         {"batches " + batch + ` signature: live "", rebuilt NULL`},
		`DELETE FROM memories WHERE leaf_index = 0`: {leaf(0) + ": live has not, rebuilt has the row", root + ": live "},
		`DELETE FROM memories WHERE leaf_index = 2`: {leaf(2) + ": live has not, rebuilt has the row", root + ": live "},
		`UPDATE memories SET leaf_index = 4, seq = 9 WHERE leaf_index = 1`: {
			leaf(1) + ": live has not, rebuilt has the row", leaf(4) + ": live has the row, rebuilt has not", root + ": live "},
		`UPDATE memories SET leaf_hash = sha256('') WHERE leaf_index = 2`: {leaf(2) + ` leaf_hash: live "\\xe3b0c4`, root + ": live "},
	} {
		s.do(damage)
		var seen []string
		cfg := s.config()
		cfg.Report = func(d rebuild.Difference) { seen = append(seen, d.String()) }
		result, err := rebuild.Run(t.Context(), cfg)
		if !slices.EqualFunc(seen, want, strings.HasPrefix) || !errors.Is(err, rebuild.ErrDifferent) || result.Differences != uint64(len(want)) {
			t.Errorf("%s: %v, %d differences: %q, want %q", damage, err, result.Differences, seen, want)
		}
		if result.Rows != 3+1+1 || result.Owners != 1 || result.Compared != 4 {
			t.Errorf("%s: %+v", damage, result)
		}
		cfg.Force = true
		run(t, cfg)
	}
}

// TestManyDifferencesAreCounted, and at most a hundred per table are shown.
func TestManyDifferencesAreCounted(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fill(1, 150)
	s.do(`UPDATE memories SET metadata = 'null'`)
	shown := 0
	cfg := s.config()
	cfg.Report = func(rebuild.Difference) { shown++ }
	result, err := rebuild.Run(t.Context(), cfg)
	if !errors.Is(err, rebuild.ErrDifferent) || result.Differences != 150 || shown != 100 {
		t.Errorf("%+v, %v, %d shown", result, err, shown)
	}
}

// asking is a log that calls a function each time its head is read.
type asking struct {
	rebuild.Log
	head func(uint64, error) (uint64, error)
}

func (l asking) Head(ctx context.Context) (uint64, error) { return l.head(l.Log.Head(ctx)) }

// TestWhatIsAppliedMeanwhileIsNoDifference: live tables may be ahead of the log's head as
// read before, because both moved on. Rows that are added during the comparison are not
// part of it.
func TestWhatIsAppliedMeanwhileIsNoDifference(t *testing.T) {
	t.Parallel()
	for _, projection := range []string{"", "tree"} {
		t.Run(projection, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			a := s.fill(1, 3)[0]
			goOn := func() {
				a.AppendMemory(t, s.log, `{}`)
				s.caughtUp()
			}
			cfg := s.config()
			cfg.Projection = projection
			swapping := false // the swap holds projectors back
			cfg.Log = asking{cfg.Log, func(head uint64, err error) (uint64, error) {
				if !swapping {
					goOn()
				}
				return head, err
			}}
			cfg.Say = func(what string) {
				if strings.HasPrefix(what, "comparing") {
					goOn()
					swapping = true
				}
			}
			cfg.Report = func(d rebuild.Difference) { t.Errorf("difference: %v", d) }
			if result := run(t, cfg); !result.Swapped || !swapping || result.Owners != 1 {
				t.Errorf("%+v", result)
			}
		})
	}
}

// statements counts the statements with a given beginning, on all connections of a pool.
type statements struct {
	beginning string
	seen      atomic.Int64
	first     func() // called at the first of them, if set
}

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.HasPrefix(data.SQL, s.beginning) && s.seen.Add(1) == 1 && s.first != nil {
		s.first()
	}
	return ctx
}

func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// pool returns a pool whose statements are counted, also on connections that use a copy
// of its configuration.
func (s *statements) pool(t *testing.T, plain *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	return fixture.Reopened(t, plain, func(c *pgx.ConnConfig) { c.Tracer = s })
}

// TestRowsAreComparedWhereItIsAskedFor: with Rows, the rows of every table are compared
// though the checksums agree. Without Rows they are not.
func TestRowsAreComparedWhereItIsAskedFor(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fill(2, 3)
	tables := 0
	for _, p := range readmodel.All() {
		tables += len(p.Tables())
	}
	for rows, want := range map[bool]int{false: 0, true: 2 * tables} {
		looks := &statements{beginning: "SELECT concat_ws("}
		cfg := s.config()
		cfg.Rows, cfg.Pool = rows, looks.pool(t, s.pool)
		if run(t, cfg); int(looks.seen.Load()) != want {
			t.Errorf("rows %v: %d tables are read, want %d", rows, looks.seen.Load(), want)
		}
	}
}

// TestALogThatDoesNotAnswerIsNotEmpty: whenever the log stops answering, the rebuild
// returns the error, and the live tables stay. The next rebuild succeeds. Neither leaves
// a connection open.
func TestALogThatDoesNotAnswerIsNotEmpty(t *testing.T) {
	t.Parallel()
	s := emptyStage(t)
	stop := s.projector()
	a := s.fill(1, 20)[0]
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	down := fmt.Errorf("down: %w", eventlog.ErrUnavailable)
	var open connections
	for fails, before := 1, s.generation(); ; fails++ {
		asked := 0
		cfg := s.config()
		cfg.Pool = open.pool(t, s.pool)
		cfg.Log = asking{cfg.Log, func(head uint64, err error) (uint64, error) {
			if asked++; asked == fails {
				return 0, down
			}
			return head, err
		}}
		cfg.Report = func(d rebuild.Difference) { t.Errorf("asked %d times: %v", asked, d) }
		result, err := rebuild.Run(t.Context(), cfg)
		fixture.Eventually(t, 2*time.Minute, func() error { // a cancelled connection is closed later
			if n := open.open.Load(); n != 0 {
				return fmt.Errorf("asked %d times: %d connections are open", asked, n)
			}
			return nil
		})
		if asked < fails {
			if err != nil || !result.Swapped || s.generation() == before || fails < 5 {
				t.Errorf("asked %d times: %+v, %v", asked, result, err)
			}
			break
		}
		if !errors.Is(err, eventlog.ErrUnavailable) || result.Swapped || s.generation() != before {
			t.Errorf("asked %d times: %+v, %v", asked, result, err)
		}
	}
	s.projector()
	fixture.Eventually(t, 2*time.Minute, func() error { return s.check(a) })
}

// connections counts the open connections of a pool, and of copies of its configuration.
type connections struct{ open atomic.Int64 }

type connection struct {
	net.Conn
	close func()
}

func (c connection) Close() error {
	c.close()
	return c.Conn.Close()
}

func (n *connections) pool(t *testing.T, plain *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	return fixture.Reopened(t, plain, func(c *pgx.ConnConfig) {
		c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			n.open.Add(1)
			return connection{conn, sync.OnceFunc(func() { n.open.Add(-1) })}, nil
		}
	})
}
