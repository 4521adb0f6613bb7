package schema_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/infra/localpostgres"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
	"github.com/memory-ledger/ledger/projections/schema"
)

func TestManyMigrateAtOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			// Two schemas, four processes each.
			if err := migrate(t, url, []string{schema.Live, "second"}[i%2]); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, name := range []string{schema.Live, "second"} {
		pool, err := schema.OpenPool(t.Context(), url, name, 2)
		must(t, err)
		if at, err := projector.ReadCheckpoint(t.Context(), pool); err != nil || at.Seq != 0 {
			t.Errorf("%s: position %d, %v", name, at.Seq, err)
		}
		if schema.Name(pool) != name {
			t.Errorf("pool of %s is of %s", name, schema.Name(pool))
		}
		pool.Close()
	}
}

// TestNewerTablesAreRefused: a build refuses to work on tables that a newer build has
// migrated.
func TestNewerTablesAreRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	must(t, migrate(t, url, schema.Live))
	conn := connect(t, url)
	must(t, errorOf(conn.Exec(t.Context(), `INSERT INTO ledger.goose_db_version (version_id, is_applied) VALUES (999, true)`)))
	if err := migrate(t, url, schema.Live); !errors.Is(err, schema.ErrNewer) || !strings.Contains(err.Error(), "999") {
		t.Errorf("migrate: %v", err)
	}
}

// TestARoleWithoutRightsFindsTheSchema: with a role that can only read the tables,
// Migrate succeeds if there is nothing to do. If there is something to do, its error says
// which role can do it.
func TestARoleWithoutRightsFindsTheSchema(t *testing.T) {
	t.Parallel()
	server, reader := pgtest.StartTCP(t, nil)
	admin := connect(t, server.AdminURL())
	name := admin.Config().Database
	exec := func(sql string) {
		t.Helper()
		must(t, errorOf(admin.Exec(t.Context(), sql)))
	}
	exec(`CREATE ROLE reader LOGIN PASSWORD 'r'`)
	as := admin.Config().User
	reader.User, reader.Path = url.UserPassword("reader", "r"), "/"+name
	if err := migrate(t, reader.String(), schema.Live); err == nil || !strings.Contains(err.Error(), "start the projector first") {
		t.Errorf("without a schema, in %s: %v", name, err)
	}
	// As documented.
	exec(`ALTER DEFAULT PRIVILEGES FOR ROLE ` + as + ` GRANT USAGE ON SCHEMAS TO reader`)
	exec(`ALTER DEFAULT PRIVILEGES FOR ROLE ` + as + ` GRANT SELECT ON TABLES TO reader`)
	must(t, migrate(t, server.AdminURL(), schema.Live))
	if err := migrate(t, reader.String(), schema.Live); err != nil {
		t.Errorf("with one: %v", err)
	}
	exec(`REVOKE SELECT ON ledger.goose_db_version FROM reader`)
	if err := migrate(t, reader.String(), schema.Live); err == nil || !strings.Contains(err.Error(), "start the projector first") {
		t.Errorf("with one that it may not read: %v", err)
	}
	exec(`GRANT SELECT ON ledger.goose_db_version TO reader`)
	exec(`DELETE FROM ledger.goose_db_version WHERE version_id >= 3`)
	if err := migrate(t, reader.String(), schema.Live); err == nil || !strings.Contains(err.Error(), "start the projector first") {
		t.Errorf("with an old one: %v", err)
	}
}

func TestEveryTableBelongsToAProjection(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	must(t, migrate(t, url, schema.Live))
	known := map[string]bool{"checkpoint": true, "goose_db_version": true}
	for _, p := range readmodel.All() {
		for _, table := range p.Tables() {
			if known[table] {
				t.Errorf("table %s belongs to two", table)
			}
			known[table] = true
		}
	}
	conn := connect(t, url)
	rows, err := conn.Query(t.Context(), `SELECT tablename::text FROM pg_tables WHERE schemaname = $1`, schema.Live)
	must(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	for _, table := range tables {
		if !known[table] {
			t.Errorf("table %s belongs to no projection", table)
		}
		delete(known, table)
	}
	for table := range known {
		t.Errorf("there is no table %s", table)
	}
}

func TestADatabaseThatIsNotUTF8IsRefused(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, localpostgres.Config{NoSync: true})
	conn := connect(t, server.AdminURL())
	must(t, errorOf(conn.Exec(t.Context(), `CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`)))
	if err := migrate(t, server.DatabaseURL("latin"), schema.Live); !errors.Is(err, schema.ErrEncoding) {
		t.Errorf("migrate: %v", err)
	}
}

func TestAPasswordStaysOutOfErrors(t *testing.T) {
	t.Parallel()
	const bad = "postgres://me:topsecret@127.0.0.1:1/x?connect_timeout=1&sslmode=disable"
	err := migrate(t, bad, schema.Live)
	if err == nil || strings.Contains(err.Error(), "topsecret") {
		t.Errorf("migrate: %v", err)
	}
	_, err = schema.OpenPool(t.Context(), bad+"&sslmode=nonsense", schema.Live, 1)
	if err == nil || strings.Contains(err.Error(), "topsecret") {
		t.Errorf("open: %v", err)
	}
}

// TestTheCheckpointIsAFence: a process that does not know the checkpoint's current
// position can't move the checkpoint.
func TestTheCheckpointIsAFence(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	must(t, migrate(t, url, schema.Live))
	pool, err := schema.OpenPool(t.Context(), url, schema.Live, 1)
	must(t, err)
	defer pool.Close()
	for _, c := range []struct {
		from, to int64
		good     bool
	}{{0, 5, true}, {0, 5, false}, {4, 9, false}, {5, 9, true}, {9, -1, false}} {
		if _, err := pool.Exec(t.Context(), `SELECT advance_checkpoint((SELECT generation FROM checkpoint), $1, $2, now())`, c.from, c.to); (err == nil) != c.good {
			t.Errorf("from %d to %d: %v", c.from, c.to, err)
		}
	}
	if at, err := projector.ReadCheckpoint(t.Context(), pool); err != nil || at.Seq != 9 {
		t.Errorf("position %d, %v", at.Seq, err)
	}
}

func migrate(t *testing.T, url, name string) error {
	t.Helper()
	pool, err := schema.OpenPool(t.Context(), url, name, 1)
	must(t, err)
	defer pool.Close()
	return schema.Migrate(t.Context(), pool)
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

var must, errorOf = testkit.Must, testkit.ErrorOf

func TestMain(m *testing.M) { pgtest.Main(m) }
