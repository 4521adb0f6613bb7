package rebuild_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/projections/readmodel/owners"
	"github.com/memory-ledger/ledger/projections/rebuild"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/projections/tree"
)

var must, slow, errorOf = testkit.Must, testkit.Slow, testkit.ErrorOf

func TestMain(m *testing.M) { pgtest.Main(m) }

// stage holds live read models with their projectors, and a listening fence.
type stage struct {
	t     *testing.T
	pool  *pgxpool.Pool
	log   *fixture.Log
	fence *fence.Fence
	url   string
}

// do runs a statement on the live tables.
func (s *stage) do(sql string) {
	s.t.Helper()
	must(s.t, errorOf(s.pool.Exec(s.t.Context(), sql)))
}

// newStage starts a projector.
func newStage(t *testing.T) *stage {
	t.Helper()
	s := emptyStage(t)
	s.projector()
	return s
}

// emptyStage has no projector.
func emptyStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, log: fixture.NewLog(t)}
	s.url, s.pool = fixture.Database(t)
	s.fence = fence.New(s.pool, s.log, fence.Options{})
	fixture.Running(t, s.fence.Run)
	return s
}

func (s *stage) projector() (stop func() error) {
	s.t.Helper()
	r := projector.New(projector.Config{Projections: readmodel.All(), Pool: s.pool, Log: s.log, MinBackoff: 5 * time.Millisecond, MaxBackoff: 200 * time.Millisecond})
	return fixture.Running(s.t, r.Run)
}

func (s *stage) config() rebuild.Config {
	return rebuild.Config{Pool: s.pool, Log: s.log.Replayed()}
}

func (s *stage) fill(owners, leaves int) []*fixture.Actor {
	s.t.Helper()
	actors := make([]*fixture.Actor, owners)
	for i := range actors {
		actors[i] = fixture.NewActor()
		for n := range leaves {
			actors[i].AppendMemory(s.t, s.log, fmt.Sprintf(`{"n":%d}`, n))
		}
	}
	s.caughtUp()
	return actors
}

func (s *stage) caughtUp() {
	s.t.Helper()
	must(s.t, s.fence.WaitAll(s.t.Context()))
}

// generation returns the generation of the live tables.
func (s *stage) generation() (g string) {
	s.t.Helper()
	must(s.t, s.pool.QueryRow(s.t.Context(), `SELECT generation::text FROM checkpoint LIMIT 1`).Scan(&g))
	return g
}

func (s *stage) schemas() (n int) {
	s.t.Helper()
	must(s.t, s.pool.QueryRow(s.t.Context(), `SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'ledger%'`).Scan(&n))
	return n
}

// check reads an owner's log and tree as a service would.
func (s *stage) check(a *fixture.Actor) error {
	ctx, want := s.t.Context(), a.Leaves()
	if _, err := s.fence.WaitOwner(ctx, a.Owner); err != nil {
		return err
	}
	o, found, err := owners.Find(ctx, s.pool, a.Owner)
	if err != nil || !found || o.LeafCount < want {
		return fmt.Errorf("stale: %d of %d leaves, %v, %v", o.LeafCount, want, found, err)
	}
	hashes := make([]events.Hash, want)
	for i := range hashes {
		hashes[i] = fixture.LeafHash(a.Owner, uint64(i))
	}
	root, err := tree.Root(ctx, s.pool, a.Owner, want)
	if err != nil || root != tree.RootOf(hashes) {
		return fmt.Errorf("root of %d leaves: %v", want, err)
	}
	_, err = memories.At(ctx, s.pool, a.Owner, first(want))
	return err
}

// first returns the first n leaves.
func first(n uint64) []uint64 {
	leaves := make([]uint64, n)
	for i := range leaves {
		leaves[i] = uint64(i)
	}
	return leaves
}

func run(t *testing.T, cfg rebuild.Config) rebuild.Result {
	t.Helper()
	result, err := rebuild.Run(t.Context(), cfg)
	must(t, err)
	return result
}

// load writes and reads for as long as f runs, and fails the test on the first
// error or stale answer.
func (s *stage) load(writers int, f func()) (writes int64) {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
	defer stop()
	var group sync.WaitGroup
	var count atomic.Int64
	for range writers {
		a := fixture.NewActor()
		group.Go(func() {
			for ctx.Err() == nil && !s.t.Failed() {
				a.AppendMemory(s.t, s.log, `{}`)
				err := s.check(a)
				// On an overloaded machine the log may refuse to answer. That is not a
				// wrong answer.
				for deadline := time.Now().Add(2 * time.Minute); errors.Is(err, eventlog.ErrUnavailable) && time.Now().Before(deadline); {
					err = s.check(a)
				}
				if err != nil {
					s.t.Error(err)
				}
				err = schema.Snapshot(s.t.Context(), s.pool, func(tx pgx.Tx) error { return sameMoment(tx, a) })
				if err != nil {
					s.t.Error(err)
				}
				count.Add(1)
			}
		})
	}
	f()
	stop()
	group.Wait()
	return count.Load()
}

// sameMoment reads an owner's row and its leaves, which must agree.
func sameMoment(tx pgx.Tx, a *fixture.Actor) error {
	ctx := context.Background()
	o, _, err := owners.Find(ctx, tx, a.Owner)
	if err != nil {
		return err
	}
	rows, err := memories.At(ctx, tx, a.Owner, first(o.LeafCount+10))
	if err != nil {
		return err
	}
	if uint64(len(rows)) != o.LeafCount {
		return fmt.Errorf("one moment shows %d leaves and %d rows", o.LeafCount, len(rows))
	}
	return nil
}

func TestSwapsUnderLoadUnseen(t *testing.T) {
	slow(t)
	t.Parallel()
	s := newStage(t)
	actors := s.fill(3, 300)
	writes := s.load(4, func() {
		for range 3 {
			before := s.generation()
			result := run(t, s.config())
			if !result.Swapped || result.Differences != 0 || result.Held > 2*time.Second {
				t.Errorf("%+v", result)
			}
			if s.generation() == before {
				t.Error("the same generation as before")
			}
		}
	})
	s.caughtUp()
	for _, a := range actors {
		if err := s.check(a); err != nil {
			t.Error(err)
		}
	}
	if n := s.schemas(); n != 1 {
		t.Errorf("%d schemas are left", n)
	}
	t.Logf("%d writes and reads meanwhile", writes)
}

func TestADifferenceIsNotSwappedInUnlessForced(t *testing.T) {
	slow(t)
	t.Parallel()
	s := newStage(t)
	a := s.fill(1, 300)[0]
	for _, damage := range []string{
		`UPDATE memories SET metadata = '{"x":1}' WHERE leaf_index = 7`,
		`DELETE FROM tiles`,
		`DROP TABLE grants`,
		`ALTER TABLE memories DROP COLUMN via`,
		`UPDATE owners SET others = others - 1`,
		`INSERT INTO api_keys (id, owner, hash, prefix, label, created_at, seq) SELECT gen_random_uuid(), owner, '\x00', 'svc_', '', now(), 1 FROM owners`,
	} {
		before := s.generation()
		s.do(damage)
		var seen []audit.Finding
		cfg := s.config()
		cfg.Report = func(d audit.Finding) { seen = append(seen, d) }
		result, err := rebuild.Run(t.Context(), cfg)
		if !errors.Is(err, rebuild.ErrDifferent) || len(seen) == 0 || result.Swapped || s.generation() != before || s.schemas() != 1 {
			t.Errorf("%s: %+v, %v, %v", damage, result, err, seen)
		}
		cfg.Force = true
		if result = run(t, cfg); !result.Swapped || s.generation() == before {
			t.Errorf("%s, forced: %+v", damage, result)
		}
		if result = run(t, s.config()); result.Differences != 0 {
			t.Errorf("%s: not cured: %+v", damage, result)
		}
	}
	if err := s.check(a); err != nil {
		t.Error(err)
	}
}

// A checkpoint is invalid if it is beyond the log, or has no row. That is
// a difference like any other, and a forced rebuild cures it: the new tables hold the
// log, and a projector continues with them.
func TestACheckpointOfNoSenseIsCured(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"beyond the log": `UPDATE checkpoint SET seq = seq + 1000`,
		"empty":          `TRUNCATE checkpoint`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := emptyStage(t)
			stop := s.projector()
			a := s.fill(1, 20)[0]
			must(t, stop())
			s.do(damage)
			var seen []audit.Finding
			cfg := s.config()
			cfg.Report = func(d audit.Finding) { seen = append(seen, d) }
			result, err := rebuild.Run(t.Context(), cfg)
			if !errors.Is(err, rebuild.ErrDifferent) || result.Swapped || len(seen) != 1 || seen[0].Table != "checkpoint" {
				t.Errorf("%+v, %v, %v", result, err, seen)
			}
			cfg.Force = true
			if result := run(t, cfg); !result.Swapped || result.Position != 20 {
				t.Errorf("forced: %+v", result)
			}
			s.projector()
			a.AppendMemory(t, s.log, `{}`)
			fixture.Eventually(t, 2*time.Minute, func() error { return s.check(a) }) // the fence has to notice
			if result := run(t, s.config()); result.Differences != 0 || result.Position != 21 {
				t.Errorf("not cured: %+v", result)
			}
		})
	}
}

// A newer program's migration that ran during the rebuild is not undone by swapping in
// tables without it, and a rebuild that fails leaves no half-filled tables on the disk.
func TestAMigrationMeanwhileIsNotUndone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fill(1, 20)
	before := s.generation()
	cfg := s.config()
	cfg.Say = func(what string) {
		if strings.Contains(what, "trying again") {
			t.Errorf("it says %q, of what does not pass", what)
		}
		if !strings.HasPrefix(what, "comparing") {
			return
		}
		if _, err := s.pool.Exec(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) SELECT max(version_id) + 1, true FROM goose_db_version`); err != nil {
			t.Error(err)
		}
	}
	result, err := rebuild.Run(t.Context(), cfg)
	if !errors.Is(err, rebuild.ErrMigrated) || result.Swapped || s.generation() != before || s.schemas() != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}

// A rebuild can be interrupted at any step and run again, and the live tables are always
// complete. Unless it has swapped, it leaves no half-filled tables on the disk.
func TestInterruptedAnywhereItRunsAgain(t *testing.T) {
	slow(t)
	t.Parallel()
	s := newStage(t)
	a := s.fill(1, 300)[0]
	for stop := 1; ; stop++ {
		ctx, cancel := context.WithCancel(t.Context())
		said := 0
		cfg := s.config()
		cfg.Say = func(string) {
			if said++; said == stop {
				cancel()
			}
		}
		result, err := rebuild.Run(ctx, cfg)
		cancel()
		if n := s.schemas(); n != 1 && !result.Swapped {
			t.Errorf("interrupted at %d: %d schemas", stop, n)
		}
		if checkErr := s.check(a); checkErr != nil {
			t.Errorf("interrupted at %d: %v", stop, checkErr)
		}
		if said < stop {
			if err != nil {
				t.Error(err)
			}
			break
		}
		if err == nil {
			t.Errorf("interrupted at %d and ended well", stop)
		}
		if again := run(t, s.config()); !again.Swapped || again.Differences != 0 || s.schemas() != 1 {
			t.Errorf("after %d: %+v", stop, again)
		}
	}
}

func TestOneAtATime(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fill(1, 5)
	inside := make(chan error, 1)
	cfg := s.config()
	second := sync.OnceFunc(func() {
		impatient := s.config()
		impatient.Patience = time.Millisecond
		_, err := rebuild.Run(t.Context(), impatient)
		inside <- err
	})
	cfg.Say = func(string) { second() }
	run(t, cfg)
	if err := <-inside; !errors.Is(err, rebuild.ErrRunning) {
		t.Errorf("a second rebuild: %v", err)
	}
}
