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
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/memory-ledger/ledger/infra/testkit"
)

var must, errorOf = testkit.Must, testkit.ErrorOf

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
		must(t, w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.text)), Typeflag: tar.TypeReg}))
		must(t, errorOf(w.Write([]byte(f.text))))
	}
	must(t, errors.Join(w.Close(), zip.Close()))
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
	packages[""] = entry{}
	lock, err := json.Marshal(map[string]any{"lockfileVersion": 3, "packages": packages})
	must(t, err)
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

// TestAPowerCutAfterAFetch: what is fetched is on the disk before it gets the name by which it
// counts as fetched. The test runs itself, and watches its calls of the system.
func TestAPowerCutAfterAFetch(t *testing.T) {
	const within = "NPM_FETCH_WITHIN"
	good := archive(t, file{"package/index.js", "1", 0o644})
	set := Set{Name: "set", What: "the set", Lock: lockOf(t, map[string]entry{"node_modules/p": {Version: "1.0.0", Integrity: integrity(good)}})}
	if cache := os.Getenv(within); cache != "" {
		serve(t, map[string][]byte{"/p/-/p-1.0.0.tgz": good})
		must(t, errorOf(Fetch(t.Context(), cache, set, nil)))
		return
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("without strace: ", err)
	}
	cache, trace := t.TempDir(), filepath.Join(t.TempDir(), "trace")
	run := exec.Command(strace, "-f", "-o", trace, "-e", "signal=none", "-e", "trace=sync,?rename,?renameat,?renameat2", os.Args[0], "-test.run", "^"+t.Name()+"$")
	run.Env = append(os.Environ(), within+"="+cache)
	if out, err := run.CombinedOutput(); err != nil {
		t.Skipf("strace can't be used here: %v: %s", err, out)
	}
	calls, err := os.ReadFile(trace)
	must(t, err)
	before, _, named := strings.Cut(string(calls), filepath.Join(cache, "set-"))
	synced := regexp.MustCompile(`sync(\(| resumed>)\) += 0`) // in two lines, if another thread is heard meanwhile
	if !named || !synced.MatchString(before) {
		t.Errorf("it was named without a sync: %s", calls)
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
		"no integrity":     {good, entry{Version: "1.0.0"}, nil, "the registry sent other bytes"},
		"a weak integrity": {good, entry{Version: "1.0.0", Integrity: "sha1-x"}, nil, "the registry sent other bytes"},
		"another system":   {good, entry{Version: "1.0.0", Integrity: integrity(good), OS: list{"plan9"}}, nil, "does not run on"},
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
		ours := !strings.Contains(name, "node_modules/") // packages of a workspace
		if !ours && !p.Link && (!strings.HasPrefix(p.Integrity, "sha512-") || p.Resolved != "") {
			errs = append(errs, fmt.Errorf("%s: %s has integrity %q and the address %q", path, name, p.Integrity, p.Resolved))
		}
	}
	return errors.Join(errs...)
}
