package deploy_test

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

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
