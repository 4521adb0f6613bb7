package fence_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localpostgres"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/schema"
)

// heads is a log whose head the test sets.
type heads struct {
	mu    sync.Mutex
	head  uint64
	owner map[events.Family]uint64
	err   error
	lag   time.Duration
	heads int // how often Head was called
	ask   func()
}

func (h *heads) Head(context.Context) (uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heads++
	if h.ask != nil {
		h.ask()
	}
	return h.head, h.err
}

func (h *heads) Lag() time.Duration { return h.lag }

func (h *heads) asked() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.heads
}

func (h *heads) OwnerHead(_ context.Context, f events.Family, _ events.Owner) (uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f == events.FamilyAny {
		return max(h.owner[events.FamilyLedger], h.owner[events.FamilyChain]), h.err
	}
	return h.owner[f], h.err
}

func (h *heads) OwnerNewest(context.Context, events.Family, events.Owner, events.SubjectKind) (eventlog.Record, bool, error) {
	return eventlog.Record{}, false, errors.New("not asked for")
}

func (h *heads) At(context.Context, uint64) (eventlog.Record, bool, error) {
	return eventlog.Record{}, false, errors.New("not asked for")
}

func (h *heads) OwnerTail(context.Context, events.Family, events.Owner, uint64, func(eventlog.Record) error) error {
	return errors.New("not asked for")
}

func newFence(t testing.TB, pool *pgxpool.Pool, log eventlog.Reader, change ...func(*fence.Options)) *fence.Fence {
	t.Helper()
	options := fence.Options{Logger: fixture.Quiet(), Timeout: 20 * time.Second}
	for _, c := range change {
		c(&options)
	}
	return fence.New(pool, log, options)
}

// advance moves the checkpoint as a projector would.
func advance(t testing.TB, pool *pgxpool.Pool, from, to uint64) {
	t.Helper()
	must(t, errorOf(pool.Exec(context.Background(), `SELECT advance_checkpoint((SELECT generation FROM checkpoint), $1, $2, now())`, from, to)))
}

// knows waits until the fence knows a position.
func knows(t testing.TB, f *fence.Fence, position uint64) {
	t.Helper()
	fixture.Eventually(t, 2*time.Minute, func() error {
		if got := f.Position(); got != position {
			return fmt.Errorf("fence is at %d, want %d", got, position)
		}
		return nil
	})
}

// metric returns the value of a metric of the fence.
func metric(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	must(t, err)
	for _, family := range families {
		if m := family.GetMetric()[0]; family.GetName() == "ledger_fence_"+name {
			return m.GetGauge().GetValue() + m.GetCounter().GetValue() // it is one of them
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func TestAWaitEndsWhenThePositionIsReached(t *testing.T) {
	t.Parallel()
	for _, listening := range []bool{true, false} {
		t.Run(fmt.Sprintf("listening %v", listening), func(t *testing.T) {
			t.Parallel()
			_, pool := fixture.Database(t)
			log := &heads{head: 7, owner: map[events.Family]uint64{events.FamilyLedger: 5, events.FamilyChain: 6}}
			f := newFence(t, pool, log)
			if listening {
				fixture.Running(t, f.Run)
			}
			owner := fixture.NewActor().Owner
			waits := []struct {
				until uint64
				wait  func() error
			}{
				{3, func() error { return f.Wait(t.Context(), 3) }},
				{6, func() error { return errorOf(f.WaitOwner(t.Context(), owner)) }}, // including the chain's events
				{7, func() error { return f.WaitAll(t.Context()) }},
			}
			done := make([]chan error, len(waits))
			for i := range waits {
				done[i] = make(chan error, 1)
				go func() { done[i] <- waits[i].wait() }()
			}
			for position := uint64(0); position < 7; position++ {
				for i := range waits {
					select {
					case err := <-done[i]:
						if err != nil || waits[i].until > position {
							t.Errorf("wait %d ended at %d: %v", i, position, err)
						}
						done[i] <- nil
					default:
					}
				}
				advance(t, pool, position, position+1)
			}
			for i := range waits {
				if err := <-done[i]; err != nil {
					t.Errorf("wait %d: %v", i, err)
				}
			}
			if listening {
				knows(t, f, 7)
			}
		})
	}
}

func TestAWaitThatTakesTooLong(t *testing.T) {
	slow(t)
	t.Parallel()
	_, pool := fixture.Database(t)
	for _, listening := range []bool{true, false} {
		log := &heads{head: 1, owner: map[events.Family]uint64{events.FamilyLedger: 1}}
		f := newFence(t, pool, log, func(o *fence.Options) { o.Timeout = 300 * time.Millisecond })
		if listening {
			fixture.Running(t, f.Run)
		}
		// The fence's timeout, and then an earlier deadline of the caller.
		for name, wait := range map[string]func() error{
			"all": func() error { return f.WaitAll(t.Context()) }, "a sequence": func() error { return f.Wait(t.Context(), 1) },
			"an owner": func() error { return errorOf(f.WaitOwner(t.Context(), fixture.NewActor().Owner)) },
		} {
			if err := wait(); !errors.Is(err, fence.ErrBehind) {
				t.Errorf("the fence's deadline for %s: %v", name, err)
			} else if !listening && !strings.Contains(err.Error(), "no listener knows their position") {
				t.Errorf("it claims a position that nobody told it: %v", err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if err := f.Wait(ctx, 1); !errors.Is(err, fence.ErrBehind) {
			t.Errorf("the caller's deadline: %v", err)
		}
		cancel()
		// A caller with a later deadline leaves.
		ctx, cancel = context.WithCancel(t.Context())
		patient := newFence(t, pool, &heads{head: 1, ask: cancel}, func(o *fence.Options) { o.Timeout = time.Minute })
		if listening {
			fixture.Running(t, patient.Run)
		}
		if err := patient.WaitAll(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, fence.ErrBehind) {
			t.Errorf("a caller that left: %v", err)
		}
	}
}

// TestACheckpointThatGoesBackIsNoticed: the database is restored, and then another schema
// replaces the current one.
func TestACheckpointThatGoesBackIsNoticed(t *testing.T) {
	t.Parallel()
	url, pool := fixture.Database(t)
	registry := prometheus.NewPedanticRegistry()
	f := newFence(t, pool, &heads{}, func(o *fence.Options) { o.Poll, o.Registerer = 20*time.Millisecond, registry })
	fixture.Running(t, f.Run)
	advance(t, pool, 0, 100)
	knows(t, f, 100)

	sql(t, pool, `UPDATE checkpoint SET seq = 40`)
	knows(t, f, 40)
	waited := make(chan error, 1)
	go func() { waited <- f.Wait(t.Context(), 90) }()
	advance(t, pool, 40, 95)
	if err := <-waited; err != nil {
		t.Error(err)
	}

	// A rebuild swaps schemas. The new schema is further on. The fence ignores a position
	// that the old projector still announces.
	next := fixture.Pool(t, url, "next")
	advance(t, next, 0, 97)
	sql(t, pool, `ALTER SCHEMA ledger RENAME TO old; ALTER SCHEMA next RENAME TO ledger`)
	knows(t, f, 97)
	sql(t, pool, `SELECT pg_notify('position_ledger', (SELECT generation FROM old.checkpoint) || ' 00-ff 500')`)
	sql(t, pool, `SELECT pg_notify('position_ledger', 'nonsense')`)
	advance(t, pool, 97, 98)
	knows(t, f, 98)
	// An exchange that continues from the known position is no step back.
	if n := metric(t, registry, "backward_total"); n != 1 {
		t.Errorf("%v steps back", n)
	}
}

// TestReadModelsThatAreAheadOfTheLog are not shown: the log lost its end, or is another
// log, or the server that answers for it does not know its end.
func TestReadModelsThatAreAheadOfTheLog(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	advance(t, pool, 0, 7)
	log := &heads{head: 5}
	f := newFence(t, pool, log, func(o *fence.Options) { o.Poll = 20 * time.Millisecond })
	fixture.Running(t, f.Run)
	knows(t, f, 7)
	owner := fixture.NewActor().Owner
	for _, wait := range []func(context.Context) error{
		f.WaitAll, func(ctx context.Context) error { return errorOf(f.WaitOwner(ctx, owner)) },
	} {
		fixture.Eventually(t, 2*time.Minute, func() error {
			if err := wait(t.Context()); !errors.Is(err, fence.ErrLogShort) {
				return fmt.Errorf("not refused: %v", err)
			}
			return nil
		})
	}
	log.mu.Lock()
	log.head = 7
	log.mu.Unlock()
	fixture.Eventually(t, 2*time.Minute, func() error { return errors.Join(f.WaitAll(t.Context()), errorOf(f.WaitOwner(t.Context(), owner))) })
}

// TestAPositionIsNotBelievedWithoutAConnection: the database may be another one when the
// connection returns.
func TestAPositionIsNotBelievedWithoutAConnection(t *testing.T) {
	slow(t)
	t.Parallel()
	cfg := localpostgres.Config{Dir: pgtest.Folder(t), NoSync: true}
	server := pgtest.Start(t, cfg)
	pool := fixture.Pool(t, server.URL(), schema.Live)
	f := newFence(t, pool, &heads{head: 100})
	fixture.Running(t, f.Run)
	advance(t, pool, 0, 100)
	knows(t, f, 100)
	must(t, f.Wait(t.Context(), 100))
	must(t, server.Kill())
	// A position that was reached before is no longer trusted.
	fixture.Eventually(t, 2*time.Minute, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := f.Wait(ctx, 100); !errors.Is(err, fence.ErrBehind) || !strings.Contains(err.Error(), "can't be reached") {
			return fmt.Errorf("without a database: %v", err)
		}
		return nil
	})
	// A caller that waits through the outage is served when it is over.
	waited := make(chan error, 1)
	go func() { waited <- f.Wait(t.Context(), 100) }()
	pgtest.Start(t, cfg)
	if err := <-waited; err != nil {
		t.Error(err)
	}
	// The waiter may have looked for itself, before the fence listens again.
	fixture.Eventually(t, 2*time.Minute, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := f.Wait(ctx, 101); !errors.Is(err, fence.ErrBehind) || strings.Contains(err.Error(), "can't be reached") {
			return fmt.Errorf("with a database again: %v", err)
		}
		return nil
	})
}

var must, slow, errorOf = testkit.Must, testkit.Slow, testkit.ErrorOf

func TestMain(m *testing.M) { pgtest.Main(m) }

// sql runs a statement.
func sql(t testing.TB, pool *pgxpool.Pool, statement string, args ...any) {
	t.Helper()
	must(t, errorOf(pool.Exec(t.Context(), statement, args...)))
}

func (h *heads) end(at uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.head = at
}

// Before the first append, and after a lost connection, CheckLog asks whether the log
// fits. In between it relies on the listener, which checks from time to time. The
// database may be unreachable by then.
func TestWhoeverAppendsAsksWhetherTheLogFits(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	advance(t, pool, 0, 7)
	log := &heads{head: 6}
	var connection atomic.Uint64
	connection.Store(1)
	f := newFence(t, pool, log, func(o *fence.Options) { o.Connection, o.Poll = connection.Load, time.Hour })
	check := func(when string, short bool) {
		t.Helper()
		if err := f.CheckLog(t.Context()); errors.Is(err, fence.ErrLogShort) != short || err != nil != short {
			t.Errorf("%s: %v", when, err)
		}
	}
	check("at first, one that is older", true)
	log.end(7)
	check("at first", false)
	fixture.Running(t, f.Run)
	knows(t, f, 7)
	log.end(6)
	check("by the same connection", false)
	connection.Add(1)
	check("by another connection", true)
	pool.Close() // the fence has its own connection, and checks again in an hour
	check("without the database", true)
	log.end(7)
	check("once it is as long", false)
}

// TestALeaderMayBeBehindItsReplicas: a log of several replicas may show a message before
// its leader has it.
func TestALeaderMayBeBehindItsReplicas(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	advance(t, pool, 0, 7)
	log := &heads{head: 6, lag: time.Minute}
	f := newFence(t, pool, log)
	waiting := make(chan error, 1)
	go func() { waiting <- f.CheckLog(t.Context()) }()
	fixture.Eventually(t, 2*time.Minute, func() error {
		if log.asked() < 3 {
			return errors.New("asked less than thrice")
		}
		return nil
	})
	log.end(7)
	if err := <-waiting; err != nil {
		t.Error(err)
	}
	f = newFence(t, pool, &heads{head: 6, lag: 10 * time.Millisecond})
	if err := f.CheckLog(t.Context()); !errors.Is(err, fence.ErrLogShort) {
		t.Errorf("one that stays shorter: %v", err)
	}
}
