package rebuild_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localpostgres"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/rebuild"
	"github.com/memory-ledger/ledger/projections/schema"
)

// TestADifferenceSaysWhereAndWhat: a difference names the table, and, as an audit does, the
// row by its key, the column, and both values. Rows beside the damaged row are not
// reported. Of many rows the first hundred are.
func TestADifferenceSaysWhereAndWhat(t *testing.T) {
	slow(t)
	t.Parallel()
	s := newStage(t)
	a := s.fill(1, 150)[0]
	batch := fixture.UUID()
	a.Append(t, s.log, &events.BatchCut{BatchID: batch, Size: 150})
	s.caughtUp()
	for damage, want := range map[string][]string{
		`UPDATE memories SET metadata = 'x' WHERE leaf_index = 1`: {"memories", `leaf 1`, `column metadata: should be "{\"n\":1}", is "x"`},
		`UPDATE batches SET signature = ''`:                       {"batches", "row id=" + batch, "column signature: should be"},
		`DELETE FROM memories WHERE leaf_index = 149`:             {"memories", "leaf 149", "missing"},
		`UPDATE memories SET metadata = 'null'`:                   {"memories", "leaf 99"},
		`DELETE FROM memories`:                                    {"memories", "it has 0 rows"},
	} {
		s.do(damage)
		var seen []string
		cfg := s.config()
		cfg.Report = func(f audit.Finding) {
			if f.Table != want[0] {
				t.Errorf("%s: %v", damage, f)
			}
			seen = append(seen, f.String())
		}
		result, err := rebuild.Run(t.Context(), cfg)
		all := strings.Join(seen, "\n")
		if !errors.Is(err, rebuild.ErrDifferent) || result.Differences == 0 || len(seen) > 101 || result.Rows != 150+1+1 || result.Compared != 151 {
			t.Errorf("%s: %+v, %v, %d shown", damage, result, err, len(seen))
		}
		for _, part := range want {
			if !strings.Contains(all, part) {
				t.Errorf("%s: it does not say %q: %s", damage, part, all)
			}
		}
		cfg.Force = true
		run(t, cfg)
	}
}

// asking is a log that calls a function each time its head is read.
type asking struct {
	audit.Log
	head func(uint64, error) (uint64, error)
}

func (l asking) Head(ctx context.Context) (uint64, error) { return l.head(l.Log.Head(ctx)) }

// TestALogThatDoesNotAnswerIsNotEmpty: whenever the log stops answering, the rebuild
// returns the error, and the live tables stay. The next rebuild succeeds. Neither leaves
// a connection open.
func TestALogThatDoesNotAnswerIsNotEmpty(t *testing.T) {
	t.Parallel()
	s := emptyStage(t)
	stop := s.projector()
	a := s.fill(1, 20)[0]
	must(t, stop())
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
		cfg.Report = func(d audit.Finding) { t.Errorf("asked %d times: %v", asked, d) }
		result, err := rebuild.Run(t.Context(), cfg)
		cfg.Pool.Reset()                                    // closes what the pool itself keeps
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

// The live schema is not marked as one that a rebuild may drop.
func TestTheLiveSchemaIsNotMarked(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fill(2, 20)
	run(t, s.config())
	var said *string
	if err := s.pool.QueryRow(t.Context(), `SELECT obj_description('ledger'::regnamespace, 'pg_namespace')`).Scan(&said); err != nil || said != nil {
		t.Errorf("the schema says %v, %v", said, err)
	}
}

// TestAForcedRebuildCuresDamagedPages: the rebuild can't read the damaged tables. It
// reports that, compares the other tables, and swaps. The projector, which could not read
// them either, continues.
func TestAForcedRebuildCuresDamagedPages(t *testing.T) {
	slow(t)
	t.Parallel()
	cfg := localpostgres.Config{Dir: pgtest.Folder(t), NoSync: true}
	server := pgtest.Start(t, cfg)
	s := &stage{t: t, log: fixture.NewLog(t), pool: fixture.Pool(t, server.URL(), schema.Live)}
	s.fence = fence.New(s.pool, s.log, fence.Options{Logger: fixture.Quiet()})
	fixture.Running(t, s.fence.Run)
	s.projector()
	actors := s.fill(2, 300)

	admin, err := pgx.Connect(t.Context(), server.AdminURL())
	must(t, err)
	defer admin.Close(t.Context())
	var folder string
	must(t, admin.QueryRow(t.Context(), `SHOW data_directory`).Scan(&folder))
	damaged := []string{"memories", "tiles", "checkpoint"}
	var files []string
	for _, table := range damaged {
		var file string
		must(t, s.pool.QueryRow(t.Context(), `SELECT pg_relation_filepath($1::regclass)`, table).Scan(&file))
		files = append(files, filepath.Join(folder, file))
	}
	must(t, server.Stop(t.Context()))
	for _, file := range files {
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		must(t, err)
		must(t, errorOf(f.WriteAt([]byte(strings.Repeat("\xff", 64)), 0))) // the head of its first page
		must(t, f.Close())
	}
	pgtest.Start(t, cfg)
	for _, a := range actors {
		a.AppendMemory(t, s.log, `{}`)
	}

	var found []string
	options := s.config()
	options.Report = func(d audit.Finding) { found = append(found, d.String()) }
	if result, err := rebuild.Run(t.Context(), options); !errors.Is(err, rebuild.ErrDifferent) || result.Swapped || result.Rows == 0 {
		t.Errorf("%+v, %v", result, err)
	}
	for _, table := range damaged {
		if all := strings.Join(found, "\n"); !strings.Contains(all, "table "+table+": it can't be read (") {
			t.Errorf("it says nothing of %s: %s", table, all)
		}
	}
	options.Force = true
	if result := run(t, options); !result.Swapped {
		t.Errorf("%+v", result)
	}
	s.caughtUp()
	for _, a := range actors {
		if err := s.check(a); err != nil {
			t.Error(err)
		}
	}
	options.Force, options.Report = false, func(d audit.Finding) { t.Errorf("afterwards: %s", d) }
	run(t, options)
}
