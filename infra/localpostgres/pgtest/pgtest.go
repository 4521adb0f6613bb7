// Package pgtest gives tests a real PostgreSQL server: one private server per
// test program, started on first use, and a fresh, empty database for each test.
//
// The shared server runs with fsync off. A test whose subject is durability, or
// that stops the server, starts its own with Start.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/infra/localpostgres"
)

// shared is the server of this test program.
var shared struct {
	once, filled sync.Once
	server       *localpostgres.Server
	admin        *pgxpool.Pool
	folder       string
	err          error
}

var databases atomic.Int64

// ends says that Main stops the shared server.
var ends atomic.Bool

// Main runs the tests and then stops the shared server. Call it as the last statement
// of TestMain: it ends the program. If a test program dies without it, its server dies,
// too, and its folder is left.
func Main(m *testing.M, after ...func()) {
	ends.Store(true)
	code := m.Run()
	for _, do := range after {
		do()
	}
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Database makes an empty database, owned by the role ledger, and returns its
// URL. It is dropped when the test ends, even if clients are still connected to it.
func Database(t testing.TB) string {
	t.Helper()
	return copyOf(t, sharedServer(t), "template0")
}

// Filled makes a copy of a database that fill has filled, once for this test program. All
// copies have the same random values, for example the tables' generation.
func Filled(t testing.TB, fill func(url string) error) string {
	t.Helper()
	s := sharedServer(t)
	shared.filled.Do(func() {
		_, err := shared.admin.Exec(t.Context(), "CREATE DATABASE filled OWNER ledger TEMPLATE template0")
		if err == nil {
			err = fill(s.DatabaseURL("filled"))
		}
		if err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return copyOf(t, s, "filled")
}

func copyOf(t testing.TB, s *localpostgres.Server, template string) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", databases.Add(1))
	if _, err := shared.admin.Exec(t.Context(), "CREATE DATABASE "+name+" OWNER ledger TEMPLATE "+template+" STRATEGY file_copy"); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if _, err := shared.admin.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return s.DatabaseURL(name)
}

// Start runs a server for one test in cfg.Dir, or in a fresh folder if cfg.Dir is empty.
// cfg decides about fsync. When the test ends, the server is stopped and a fresh folder
// is removed. The test may stop or kill the server earlier and start another on the same
// folder: the URL stays the same.
func Start(t testing.TB, cfg localpostgres.Config) *localpostgres.Server {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = Folder(t)
	}
	if cfg.Logger == nil {
		cfg.Logger = quiet()
	}
	s, err := localpostgres.Start(t.Context(), cfg)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		select {
		case <-s.Done():
		default:
			if err := s.Stop(context.Background()); err != nil {
				t.Errorf("pgtest: %v", err)
			}
		}
	})
	return s
}

// StartTCP is Start with a listener on a free port of 127.0.0.1 too. It returns the URL of
// that listener, with a password.
func StartTCP(t testing.TB, settings map[string]string) (*localpostgres.Server, *url.URL) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	all := map[string]string{"listen_addresses": "127.0.0.1", "port": port}
	maps.Copy(all, settings)
	s := Start(t, localpostgres.Config{NoSync: true, Settings: all})
	conn, err := pgx.Connect(t.Context(), s.AdminURL())
	if err == nil {
		_, err = conn.Exec(t.Context(), "ALTER ROLE ledger PASSWORD 'right'")
		err = errors.Join(err, conn.Close(t.Context()))
	}
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return s, &url.URL{Scheme: "postgresql", User: url.UserPassword("ledger", "right"), Host: l.Addr().String(), Path: "/ledger", RawQuery: "sslmode=disable"}
}

// Folder makes a folder for one test's server. Unlike the path of t.TempDir, its path is
// short.
func Folder(t testing.TB) string {
	t.Helper()
	folder, err := newFolder()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := Remove(folder); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return filepath.Join(folder, "pg")
}

func sharedServer(t testing.TB) *localpostgres.Server {
	t.Helper()
	if !ends.Load() {
		t.Fatal("pgtest: TestMain does not call pgtest.Main, so the server's folder would be left")
	}
	shared.once.Do(func() {
		shared.folder, shared.err = newFolder()
		if shared.err != nil {
			return
		}
		shared.server, shared.err = localpostgres.Start(context.Background(), localpostgres.Config{
			Dir:    filepath.Join(shared.folder, "pg"),
			NoSync: true, Settings: map[string]string{"max_connections": "200"}, Logger: quiet(),
		})
		if shared.err == nil {
			shared.admin, shared.err = pgxpool.New(context.Background(), shared.server.AdminURL())
		}
	})
	if shared.err != nil {
		t.Fatalf("pgtest: %v", shared.err)
	}
	return shared.server
}

func stopShared() error {
	if shared.folder == "" {
		return nil
	}
	if shared.admin != nil {
		shared.admin.Close()
	}
	var err error
	if shared.server != nil {
		err = shared.server.Stop(context.Background())
	}
	return errors.Join(err, Remove(shared.folder))
}

func newFolder() (string, error) {
	folder, err := os.MkdirTemp("", "ledger-pgtest-")
	if err == nil {
		err = os.Chmod(folder, 0o711) // so that the server's user reaches files that a test puts there
	}
	return folder, err
}

// Remove removes a folder, and the clusters of the servers in it that ran as root: they are
// elsewhere.
func Remove(folder string) error {
	var errs []error
	for _, where := range []string{"*/id", "*/*/id", "*/*/*/id"} { // also in a data folder
		ids, err := filepath.Glob(filepath.Join(folder, where))
		errs = append(errs, err)
		for _, id := range ids {
			home, err := localpostgres.Home(filepath.Dir(id))
			if err == nil {
				err = os.RemoveAll(home)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, os.RemoveAll(folder))...)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
