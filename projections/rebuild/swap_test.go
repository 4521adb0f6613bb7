package rebuild_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/readmodel/owners"
	"github.com/memory-ledger/ledger/projections/rebuild"
	"github.com/memory-ledger/ledger/projections/schema"
)

// TestASwapWaitsForAudits: table names keep their meaning during an audit. An audit does
// not have to wait for the rest of the rebuild.
func TestASwapWaitsForAudits(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fill(1, 3)
	before := s.generation()
	audit, err := s.pool.Acquire(t.Context())
	must(t, err)
	defer audit.Release()
	key := schema.LockKey("swap", schema.Live)
	must(t, errorOf(audit.Exec(t.Context(), `SELECT pg_advisory_lock_shared($1)`, key)))
	ended := make(chan error, 1)
	go func() {
		result, err := rebuild.Run(t.Context(), s.config())
		if err == nil && !result.Swapped {
			err = fmt.Errorf("%+v", result)
		}
		ended <- err
	}()
	fixture.Eventually(t, 2*time.Minute, func() (err error) {
		var waits bool
		if err = s.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
				WHERE locktype = 'advisory' AND NOT granted AND application_name = 'memory-ledger rebuild' AND datname = current_database())`).Scan(&waits); err == nil && !waits {
			err = fmt.Errorf("it does not wait, and ended %d times", len(ended))
		}
		return err
	})
	if s.generation() != before {
		t.Error("the tables were exchanged under an audit")
	}
	must(t, errorOf(audit.Exec(t.Context(), `SELECT pg_advisory_unlock_shared($1)`, key)))
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestTablesThatWentBackAreNotOvertaken: the live tables were restored during the
// rebuild, so the new tables hold a message that the live checkpoint no longer covers.
func TestTablesThatWentBackAreNotOvertaken(t *testing.T) {
	t.Parallel()
	s := emptyStage(t)
	stop := s.projector()
	s.fill(1, 20)
	must(t, stop())
	before := s.generation()
	cfg := s.config()
	cfg.Say = func(what string) {
		if strings.HasPrefix(what, "comparing") {
			s.do(`UPDATE checkpoint SET seq = seq - 1`)
		}
	}
	result, err := rebuild.Run(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "at 20, beyond the live ones at 19") || result.Swapped || s.generation() != before {
		t.Errorf("%+v, %v", result, err)
	}
}

// TestARebuildBesideNothing: if no read models exist yet, a rebuild makes empty ones,
// which a projector fills.
func TestARebuildBesideNothing(t *testing.T) {
	t.Parallel()
	pool, err := schema.OpenPool(t.Context(), pgtest.Database(t), schema.Live, 4)
	must(t, err)
	t.Cleanup(pool.Close)
	s := &stage{t: t, pool: pool, log: fixture.NewLog(t)}
	a := fixture.NewActor()
	a.AppendMemory(t, s.log, `{}`)
	if result := run(t, s.config()); !result.Swapped || result.Position != 0 || s.schemas() != 1 {
		t.Errorf("%+v", result)
	}
	s.projector()
	fixture.Eventually(t, 2*time.Minute, func() error {
		if o, _, err := owners.Find(t.Context(), pool, a.Owner); err != nil || o.LeafCount != 1 {
			return fmt.Errorf("%+v, %v", o, err)
		}
		return nil
	})
}

// TestNothingOfOthersIsDropped, whatever the schema's comment is.
func TestNothingOfOthersIsDropped(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fill(1, 3)
	for _, name := range []string{"ledger_old", "ledger_rebuild"} {
		for _, comment := range []string{"NULL", "'memory-ledger: mine'"} {
			s.do(`CREATE SCHEMA ` + name + `; COMMENT ON SCHEMA ` + name + ` IS ` + comment)
			result, err := rebuild.Run(t.Context(), s.config())
			if !errors.Is(err, rebuild.ErrForeign) || !strings.Contains(err.Error(), name) || result.Swapped || s.schemas() != 2 {
				t.Errorf("%s, %s: %+v, %v, %d schemas", name, comment, result, err, s.schemas())
			}
			s.do(`DROP SCHEMA ` + name)
		}
	}
}

// TestNoFenceBelievesInTheOldTables after a rebuild has reported that the new tables are
// live, however rarely the fence polls: data that was cached from the old tables may be
// wrong.
func TestNoFenceBelievesInTheOldTables(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fill(1, 3)
	var exchanged atomic.Int64
	f := fence.New(s.pool, s.log, fence.Options{Poll: time.Hour, OnExchange: func() { exchanged.Add(1) }})
	fixture.Running(t, f.Run)
	must(t, f.WaitAll(t.Context()))
	for i := range 2 {
		cfg := s.config()
		said := false
		cfg.Say = func(what string) {
			if strings.HasPrefix(what, "swapped in") {
				said = true
				if n := f.Tables(); n != uint64(i)+1 || exchanged.Load() != int64(n) {
					t.Errorf("after rebuild %d the fence has seen %d exchanges, and told of %d", i+1, n, exchanged.Load())
				}
			}
		}
		if run(t, cfg); !said {
			t.Error("it did not say that it swapped")
		}
	}
}
