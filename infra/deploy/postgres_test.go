package deploy_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/memory-ledger/ledger/infra/localpostgres"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestDatabaseSpeaksTLS runs a server with the settings of compose.yaml and the
// certificates of the script. It connects as the script's URL asks, and so also checks
// the host's name.
func TestDatabaseSpeaksTLS(t *testing.T) {
	slow(t)
	t.Parallel()
	folder := filepath.Dir(pgtest.Folder(t))
	secrets := filepath.Join(folder, "secrets")
	if out, err := exec.Command("./secrets", secrets).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	settings := map[string]string{}
	for _, argument := range compose(t).Services["postgres"].Command {
		name, value, is := strings.Cut(argument, "=")
		switch {
		case is && value == "/tmp/postgres_key":
			settings[name] = ownKey(t, filepath.Join(secrets, "postgres_key"), filepath.Join(folder, "key"))
		case is && strings.HasPrefix(value, "/run/secrets/"):
			settings[name] = ownKey(t, filepath.Join(secrets, filepath.Base(value)), filepath.Join(folder, filepath.Base(value)))
		case is && strings.HasPrefix(name, "ssl"):
			settings[name] = value
		}
	}
	if len(settings) != 3 {
		t.Fatalf("settings of TLS: %v", settings)
	}
	_, server := pgtest.StartTCP(t, settings)

	made, err := url.Parse(strings.TrimSpace(contents(t, secrets)["database_url_core"]))
	must(t, err)
	query := made.Query()
	if query.Get("sslmode") != "verify-full" || query.Get("sslrootcert") != "/run/secrets/ca_certificate" {
		t.Errorf("the URL says %s", made.RawQuery)
	}
	connect := func(host, authority string) error {
		at := *server
		at.Host = host + ":" + at.Port()
		query.Set("sslrootcert", authority)
		at.RawQuery = query.Encode()
		config, err := pgx.ParseConfig(at.String())
		if err != nil {
			return err
		}
		config.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(t.Context()) }()
		var secure bool
		if err := conn.QueryRow(t.Context(), "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").Scan(&secure); err != nil || !secure {
			t.Errorf("encrypted: %v, %v", secure, err)
		}
		return nil
	}
	authority := filepath.Join(secrets, "ca_certificate")
	if err := connect("postgres", authority); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"another authority": connect("postgres", filepath.Join(secrets, "gateway_certificate")),
		"another host":      connect("elsewhere.test", authority),
	} {
		if err == nil || !strings.Contains(err.Error(), "x509") && !strings.Contains(err.Error(), "tls") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// ownKey copies a file so that only the server's user can read it, as compose.yaml's
// entrypoint does, and returns the path of the copy.
func ownKey(t *testing.T, from, to string) string {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	must(t, err)
	if os.Geteuid() != 0 {
		return to
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.Atoi(u.Uid)
			must(t, os.Chown(to, uid, -1))
			return to
		}
	}
	t.Fatal("no user for the server")
	return ""
}

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
