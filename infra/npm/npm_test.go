package npm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// file is a file of an archive. Its name begins with the archive's own folder.
type file struct {
	name, text string
	mode       int64
}

func archive(t *testing.T, files ...file) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(f.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// registry serves archives by path, and counts the requests.
type registry struct {
	archives map[string][]byte
	requests atomic.Int64
}

func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.requests.Add(1)
	body, ok := r.archives[q.URL.Path]
	if !ok {
		http.NotFound(w, q)
		return
	}
	_, _ = w.Write(body)
}

func integrity(body []byte) string {
	sum := sha512.Sum512(body)
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

func lockOf(t *testing.T, packages map[string]entry) []byte {
	t.Helper()
	packages[""] = entry{Name: "root"}
	lock, err := json.Marshal(map[string]any{"lockfileVersion": 3, "packages": packages})
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// serve starts a registry, and makes it the one that is configured.
func serve(t *testing.T, archives map[string][]byte) *registry {
	t.Helper()
	r := &registry{archives: archives}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	t.Setenv("npm_config_registry", server.URL)
	return r
}

func TestFetch(t *testing.T) {
	tool := archive(t, file{"package/bin/tool", "#!/bin/sh\n", 0o700}, file{"package/README.md", "tool", 0o600})
	inner := archive(t, file{"inner/index.js", "1", 0o644}) // some archives name their folder otherwise
	r := serve(t, map[string][]byte{"/tool/-/tool-1.0.0.tgz": tool, "/@some/inner/-/inner-2.1.0.tgz": inner})
	set := Set{Name: "tools", What: "the tools", Lock: lockOf(t, map[string]entry{
		"node_modules/tool":                          {Version: "1.0.0", Integrity: integrity(tool)},
		"node_modules/tool/node_modules/@some/inner": {Version: "2.1.0", Integrity: integrity(inner)},
		"node_modules/alias":                         {Name: "@some/inner", Version: "2.1.0", Integrity: integrity(inner)},
		"node_modules/checks":                        {Version: "9.9.9", Dev: true},
		"node_modules/elsewhere":                     {Version: "9.9.9", Integrity: "sha512-x", Optional: true, OS: list{"plan9"}},
	})}
	finished := 0
	set.Finish = func(string) error { finished++; return nil }
	var last Progress
	cache := t.TempDir()
	folder, err := Fetch(t.Context(), cache, set, func(p Progress) { last = p })
	if err != nil {
		t.Fatal(err)
	}
	if want := (Progress{What: "the tools", Packages: 3, Of: 3, Bytes: last.OfBytes, OfBytes: int64(len(tool) + 2*len(inner)), Done: true}); last != want {
		t.Errorf("progress %+v, want %+v", last, want)
	}
	for path, want := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"tool/bin/tool":                          {"#!/bin/sh\n", 0o755},
		"tool/README.md":                         {"tool", 0o644},
		"tool/node_modules/@some/inner/index.js": {"1", 0o644},
		"alias/index.js":                         {"1", 0o644},
	} {
		full := filepath.Join(folder, "node_modules", path)
		text, err := os.ReadFile(full)
		info, statErr := os.Stat(full)
		if err := errors.Join(err, statErr); err != nil || string(text) != want.text || info.Mode().Perm() != want.mode {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	served := r.requests.Load()
	again, err := Fetch(t.Context(), cache, set, nil)
	if err != nil || again != folder || r.requests.Load() != served || finished != 1 {
		t.Errorf("the second time: %s, %v, %d requests, finished %d times", again, err, r.requests.Load()-served, finished)
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "*")); len(left) != 2 { // the folder and its lock
		t.Errorf("left in the cache: %v", left)
	}
}

// TestFetchAtOnce: of several processes, one downloads.
func TestFetchAtOnce(t *testing.T) {
	tool := archive(t, file{"package/tool", "x", 0o755})
	r := serve(t, map[string][]byte{"/tool/-/tool-1.0.0.tgz": tool})
	set := Set{Name: "tools", Lock: lockOf(t, map[string]entry{"node_modules/tool": {Version: "1.0.0", Integrity: integrity(tool)}})}
	cache := t.TempDir()
	// A killed fetch has left this.
	if err := os.MkdirAll(filepath.Join(cache, "fetching-tools", "node_modules", "tool", "half"), 0o755); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			folder, err := Fetch(t.Context(), cache, set, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := os.Stat(filepath.Join(folder, "node_modules", "tool", "half")); err == nil {
				t.Error("it used what a killed fetch left")
			}
		})
	}
	all.Wait()
	if n := r.requests.Load(); n != 1 {
		t.Errorf("%d downloads", n)
	}
}

func TestFetchThatFails(t *testing.T) {
	good := archive(t, file{"package/index.js", "1", 0o644})
	outside := archive(t, file{"package/../../../escaped", "1", 0o644})
	for name, test := range map[string]struct {
		served []byte
		entry  entry
		finish error
		want   string
	}{
		"not served":       {nil, entry{Version: "1.0.0", Integrity: integrity(good)}, nil, "p@1.0.0: the registry answers 404"},
		"other bytes":      {good, entry{Version: "1.0.0", Integrity: integrity(outside)}, nil, "the registry sent other bytes"},
		"outside":          {outside, entry{Version: "1.0.0", Integrity: integrity(outside)}, nil, "escape"},
		"no archive":       {[]byte("x"), entry{Version: "1.0.0", Integrity: integrity([]byte("x"))}, nil, "p@1.0.0: "},
		"no integrity":     {good, entry{Version: "1.0.0"}, nil, "no sha512 integrity"},
		"a weak integrity": {good, entry{Version: "1.0.0", Integrity: "sha1-x"}, nil, "no sha512 integrity"},
		"another system":   {good, entry{Version: "1.0.0", Integrity: integrity(good), OS: list{"plan9"}}, nil, "it does not run on"},
		"none for it":      {good, entry{Version: "1.0.0", Integrity: integrity(good), OS: list{"plan9"}, Optional: true}, nil, "there is no package for"},
		"not to be used":   {good, entry{Version: "1.0.0", Integrity: integrity(good)}, errors.New("wrong libc"), "wrong libc"},
	} {
		t.Run(name, func(t *testing.T) {
			archives := map[string][]byte{}
			if test.served != nil {
				archives["/p/-/p-1.0.0.tgz"] = test.served
			}
			serve(t, archives)
			set := Set{Name: "set", What: "the set", Lock: lockOf(t, map[string]entry{"node_modules/p": test.entry}), Finish: func(string) error { return test.finish }}
			cache := t.TempDir()
			_, err := Fetch(t.Context(), cache, set, nil)
			if !errors.Is(err, ErrFetch) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, test.want)
			}
			if left, _ := filepath.Glob(filepath.Join(cache, "*")); slices.ContainsFunc(left, isFolder) {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestSuits(t *testing.T) {
	linux := platform{os: "linux", cpu: "x64", libc: "glibc"}
	for _, test := range []struct {
		entry entry
		on    platform
		want  bool
	}{
		{entry{}, linux, true},
		{entry{OS: list{"linux"}, CPU: list{"x64"}, Libc: list{"glibc"}}, linux, true},
		{entry{Libc: list{"musl"}}, linux, false},
		{entry{CPU: list{"arm64"}}, linux, false},
		{entry{OS: list{"!win32"}}, linux, true},
		{entry{OS: list{"!linux"}}, linux, false},
		{entry{OS: list{"darwin"}, Libc: list{"glibc"}}, platform{os: "darwin", cpu: "arm64"}, true},
	} {
		if got := test.entry.suits(test.on); got != test.want {
			t.Errorf("%+v on %+v: %v", test.entry, test.on, got)
		}
	}
}

func TestRegistryURL(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PATH", home)
	set := func(lower, upper, npmrc string) {
		t.Setenv("npm_config_registry", lower)
		t.Setenv("NPM_CONFIG_REGISTRY", upper)
		if err := os.WriteFile(filepath.Join(home, ".npmrc"), []byte(npmrc), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ lower, upper, npmrc, want string }{
		{"", "", "fund=false\n", ""}, // and no npm
		{"", "", "fund=false\nregistry = http://mirror.example/npm\n", "http://mirror.example/npm/"},
		{"", "https://upper.example", "registry=http://mirror.example/npm\n", "https://upper.example/"},
		{"https://lower.example/", "https://upper.example", "", "https://lower.example/"},
		{"ftp://mirror.example", "", "", ""},
		{"mirror", "", "", ""},
	} {
		set(test.lower, test.upper, test.npmrc)
		u, err := registryURL(t.Context())
		if test.want == "" {
			if err == nil {
				t.Errorf("%+v: %s", test, u)
			}
			continue
		}
		if err != nil || u.String() != test.want {
			t.Errorf("%+v: %v, %v", test, u, err)
		}
	}
}

func TestShow(t *testing.T) {
	var out strings.Builder
	at := time.Unix(0, 0)
	s := &show{out: &out, now: func() time.Time { return at }}
	s.at(Progress{What: "PostgreSQL", Of: 1})
	s.at(Progress{What: "the chain", Of: 56})
	s.at(Progress{What: "PostgreSQL", Of: 1, Bytes: 1_000_000, OfBytes: 15_000_000})
	at = at.Add(plainEvery)
	s.at(Progress{What: "the chain", Of: 56, Packages: 7, Bytes: 500_000})
	s.at(Progress{What: "PostgreSQL", Of: 1, Packages: 1, Bytes: 15_000_000, OfBytes: 15_000_000, Done: true})
	want := "fetching PostgreSQL\n" +
		"fetching PostgreSQL; the chain: 0 of 56 packages, 0.0 MB\n" +
		"fetching PostgreSQL: 1.0 of 15.0 MB; the chain: 7 of 56 packages, 0.5 MB\n" +
		"fetched PostgreSQL: 15.0 MB\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// TestLockFiles: each entry of each lock file of this repository is pinned by an
// integrity, and none names a registry.
func TestLockFiles(t *testing.T) {
	root := filepath.Join("..", "..")
	found := 0
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2) {
			return filepath.SkipDir
		}
		if err != nil || d.Name() != "package-lock.json" {
			return err
		}
		found++
		return pinned(path)
	})
	if err != nil || found < 6 {
		t.Errorf("%d lock files: %v", found, err)
	}
}

func pinned(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var lock struct {
		Packages map[string]struct {
			Integrity, Resolved string
			Link                bool
		}
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var errs []error
	for name, p := range lock.Packages {
		if name != "" && !p.Link && (!strings.HasPrefix(p.Integrity, "sha512-") || p.Resolved != "") {
			errs = append(errs, fmt.Errorf("%s: %s has integrity %q and the address %q", path, name, p.Integrity, p.Resolved))
		}
	}
	return errors.Join(errs...)
}
