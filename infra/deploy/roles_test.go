package deploy_test

import (
	"errors"
	"net/url"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/memory-ledger/ledger/infra/localpostgres"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
)

// TestRoles: each service may do in the database only what its work needs. This also
// holds in schemas that the projector makes later.
func TestRoles(t *testing.T) {
	slow(t)
	t.Parallel()
	psql, err := exec.LookPath("psql")
	if err != nil {
		t.Skip("psql is missing: make deps installs it")
	}
	server := pgtest.Start(t, localpostgres.Config{NoSync: true})
	secrets := filepath.Join(filepath.Dir(pgtest.Folder(t)), "secrets")
	if out, err := exec.Command("./secrets", secrets).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	admin := server.AdminURL()
	for _, in := range []string{secrets, "/nowhere", secrets} { // the second and third time it changes nothing
		if out, err := exec.Command(psql, "-X", "-q", "-v", "secrets="+in, "-f", "roles.sql", admin).CombinedOutput(); (err == nil) != (in == secrets) {
			t.Fatalf("%v: %s", err, out)
		}
	}
	as := func(role string) *pgx.Conn {
		at, err := url.Parse(admin)
		must(t, err)
		at.User = url.User(role)
		conn, err := pgx.Connect(t.Context(), at.String())
		if err != nil {
			t.Fatal(role, err)
		}
		t.Cleanup(func() { _ = conn.Close(t.Context()) })
		return conn
	}
	projector := as("ledger_projector")
	do := func(conn *pgx.Conn, sql string) error {
		_, err := conn.Exec(t.Context(), sql)
		return err
	}
	for _, sql := range []string{"CREATE SCHEMA ledger", "CREATE TABLE ledger.memories (id int)", "CREATE SCHEMA ledger_fresh", "CREATE TABLE ledger_fresh.memories (id int)"} {
		must(t, do(projector, sql))
	}
	anchorer := as("ledger_anchorer")
	if err := do(anchorer, "CREATE SCHEMA ledger_anchor CREATE TABLE owners (id int)"); err != nil {
		t.Error(err)
	}
	refused := func(who string, conn *pgx.Conn, sql string) {
		var err *pgconn.PgError
		if !errors.As(do(conn, sql), &err) || err.Code != "42501" {
			t.Errorf("%s: %s: %v", who, sql, err)
		}
	}
	for who, conn := range map[string]*pgx.Conn{"core": as("ledger_core"), "extension": as("ledger_extension"), "anchorer": anchorer} {
		for _, sql := range []string{"SELECT FROM ledger.memories", "SELECT FROM ledger_fresh.memories", "LISTEN position_ledger"} {
			if err := do(conn, sql); err != nil {
				t.Errorf("%s: %s: %v", who, sql, err)
			}
		}
		for _, sql := range []string{
			"INSERT INTO ledger.memories VALUES (1)", "DELETE FROM ledger_fresh.memories", "DROP SCHEMA ledger CASCADE",
			"CREATE TABLE ledger.more (id int)", "CREATE TABLE public.more (id int)", "CREATE TEMP TABLE more (id int)",
		} {
			refused(who, conn, sql)
		}
		if who != "anchorer" {
			refused(who, conn, "CREATE SCHEMA more")
			refused(who, conn, "SELECT FROM ledger_anchor.owners")
		}
	}
	refused("projector", projector, "SELECT FROM ledger_anchor.owners")
	must(t, do(as("postgres"), "CREATE ROLE stranger LOGIN"))
	at, err := url.Parse(admin)
	must(t, err)
	at.User = url.User("stranger")
	if conn, err := pgx.Connect(t.Context(), at.String()); err == nil {
		_ = conn.Close(t.Context())
		t.Error("another role may connect")
	}
}
