package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
	"github.com/memory-ledger/ledger/projections/rebuild"
	"github.com/memory-ledger/ledger/projections/schema"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// projected makes the read models of a log up to a sequence.
func projected(t *testing.T, natsURL, databaseURL string, upTo uint64) *pgxpool.Pool {
	t.Helper()
	if err := schema.Migrate(t.Context(), databaseURL, schema.Live); err != nil {
		t.Fatal(err)
	}
	pool, err := schema.OpenPool(t.Context(), databaseURL, schema.Live, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	log, err := eventlog.Open(t.Context(), dial(t, natsURL))
	if err != nil {
		t.Fatal(err)
	}
	ctx, done := context.WithCancel(t.Context())
	defer done()
	r, err := projector.New(projector.Config{Projections: readmodel.All(), Pool: pool, Log: log, Applied: func(position uint64) {
		if position == upTo {
			done()
		}
	}})
	if err == nil {
		err = r.Run(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

// A rebuild reports what it compared and what is live now. Differences are printed as
// findings, and nothing is swapped without --force.
func TestRebuild(t *testing.T) {
	database := pgtest.Database(t)
	urlOf := deployed(t)
	write(t, urlOf("core"), 20)
	pool := projected(t, urlOf("admin"), database, 21)
	onlyEnviron(t, map[string]string{"NATS_URL": urlOf("auditor"), "LEDGER_DATA_DIR": t.TempDir()})
	if said := runs(t, "rebuild"); !strings.Contains(said, "nothing to rebuild") || !strings.Contains(said, "DATABASE_URL") {
		t.Errorf("without a database: %s", said)
	}
	t.Setenv("DATABASE_URL", database)
	if said := runs(t, "rebuild", "--projection", "nothing"); !strings.Contains(said, rebuild.ErrUnknown.Error()) {
		t.Errorf("of no projection: %s", said)
	}
	const compared, live = "compared at sequence 21: 21 rows, ", "the fresh read models are live, from sequence 21 on\n"
	rebuilds := func(want, differs string, args ...string) {
		t.Helper()
		var out, progress strings.Builder
		root := newRoot()
		root.SetOut(&out)
		root.SetErr(&progress)
		root.SetArgs(append([]string{"rebuild"}, args...))
		err := root.ExecuteContext(t.Context())
		var found finding
		if isFinding := errors.As(err, &found); out.String() != want || isFinding != !strings.HasSuffix(want, live) || err != nil && !isFinding {
			t.Errorf("rebuild %v: %v\n%s", args, err, out.String())
		}
		if (differs != "") != strings.Contains(progress.String(), "read model: ") || !strings.Contains(progress.String(), differs) {
			t.Errorf("rebuild %v says\n%s", args, progress.String())
		}
	}
	rebuilds(compared+"0 differences\n"+live, "")
	if _, err := pool.Exec(t.Context(), `UPDATE memories SET metadata = 'null' WHERE leaf_index = 7`); err != nil {
		t.Fatal(err)
	}
	rebuilds("compared at sequence 21: 1 rows, 0 differences\n"+live, "", "--projection", "owners")
	rebuilds(compared+"2 differences\n", `leaf 7`)
	rebuilds(compared+"1 differences\n"+live, "memories: it has", "--force")
	rebuilds(compared+"0 differences\n"+live, "")
}

// The error of a rebuild that ends after the swap differs from that of one that changed
// nothing.
func TestRebuildThatLeavesTheOldTables(t *testing.T) {
	database := pgtest.Database(t)
	urlOf := deployed(t)
	write(t, urlOf("core"), 2)
	projected(t, urlOf("admin"), database, 3)
	onlyEnviron(t, map[string]string{"NATS_URL": urlOf("auditor"), "DATABASE_URL": database, "LEDGER_DATA_DIR": t.TempDir()})
	for at, swapped := range map[string]bool{"comparing": false, "dropping": true} {
		ctx, stop := context.WithCancel(t.Context())
		var out strings.Builder
		err := runRebuild(ctx, rebuild.Config{}, &out, &heard{want: at, stop: stop})
		if !errors.Is(err, context.Canceled) || out.Len() > 0 || swapped != strings.Contains(err.Error(), "the next rebuild drops them") {
			t.Errorf("ended while it was %s: %v\n%s", at, err, out.String())
		}
	}
}
