package rebuild_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/infra/localpostgres"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/rebuild"
	"github.com/memory-ledger/ledger/projections/schema"
)

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
