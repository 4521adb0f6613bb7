package localpostgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/memory-ledger/ledger/infra/datadir"
)

const (
	clusterName   = "cluster"
	socketName    = "sock"
	lockName      = "lock"
	elsewhereName = "elsewhere"
	sockdirName   = "sockdir"
	passwordName  = "password"
	originName    = "origin" // in a folder elsewhere: the Config.Dir it serves

	homePrefix = "ledger-postgres-"
	initPrefix = "initdb-"
)

// place says where a server's files are and which user the server runs as.
type place struct {
	dir  string // Config.Dir
	home string // holds cluster/ and sock/: dir, or the target of the link elsewhere
	who  *account
}

func (p place) cluster() string { return filepath.Join(p.home, clusterName) }

// major returns the major version of the cluster, or 0 if there is no cluster yet.
func (p place) major() (int, error) {
	text, err := os.ReadFile(filepath.Join(p.cluster(), "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("PG_VERSION of %s: %w", p.cluster(), err)
	}
	return major, nil
}

// findPlace decides where the cluster lives. It runs under the lock of dir.
func findPlace(root, dir string) (place, error) {
	p := place{dir: dir, home: dir}
	home, err := followLink(dir)
	if err != nil {
		return place{}, err
	}
	if home != "" {
		p.home = home
	}
	if _, statErr := os.Stat(p.cluster()); statErr == nil {
		p.who, err = ownerOf(p.cluster())
	} else {
		p.who, err = unprivileged()
	}
	if err != nil || p.who == nil || p.home != dir {
		return p, err
	}
	closed := openPath(p.who, root, dir)
	if closed == nil {
		return p, nil
	}
	if _, err := os.Stat(p.cluster()); err == nil {
		return place{}, fmt.Errorf("%w: the database in %s: %w", ErrUnreachable, dir, closed)
	}
	p.home, err = goElsewhere(p.who, dir)
	if err != nil {
		return place{}, fmt.Errorf("%w: %w; and %w", ErrUnreachable, closed, err)
	}
	return p, nil
}

// openPath lets the account pass from root down to dir, if the account can reach root.
func openPath(who *account, root, dir string) error {
	if !who.reaches(root) {
		return fmt.Errorf("a folder above %s is closed to user %s", root, who.name)
	}
	rel, err := filepath.Rel(root, dir)
	if err != nil {
		return err
	}
	step := root
	if err := who.open(step); err != nil {
		return err
	}
	for name := range strings.SplitSeq(rel, string(filepath.Separator)) {
		step = filepath.Join(step, name)
		if err := who.open(step); err != nil {
			return err
		}
	}
	return nil
}

// followLink returns the home that the link elsewhere points to, or "" if there is none.
// It removes the link if its home is gone: the cluster is made again, because the log has
// everything. It also removes the link if dir is a copy of the folder that owns the home.
func followLink(dir string) (string, error) {
	link := filepath.Join(dir, elsewhereName)
	home, err := os.Readlink(link)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(home); err != nil {
		return "", os.Remove(link)
	}
	origin := filepath.Join(home, originName)
	owner, err := os.ReadFile(origin)
	if err == nil && string(owner) == dir {
		return home, nil
	}
	if err == nil {
		if other, err := os.Readlink(filepath.Join(string(owner), elsewhereName)); err == nil && other == home {
			return "", os.Remove(link)
		}
	}
	// The folder was moved, or a crash happened before the origin was written.
	return home, datadir.WriteFile(origin, []byte(dir), 0o600)
}

// goElsewhere makes a home among the temporary files. A crash before the link leaves an
// empty folder. After a crash between link and origin, followLink writes the origin.
func goElsewhere(who *account, dir string) (string, error) {
	home, err := makeHome(who)
	if err != nil {
		return "", err
	}
	if err := os.Symlink(home, filepath.Join(dir, elsewhereName)); err != nil {
		return "", err
	}
	return home, datadir.WriteFile(filepath.Join(home, originName), []byte(dir), 0o600)
}

func makeHome(who *account) (string, error) {
	base := os.TempDir()
	if !who.reaches(base) || !who.passes(base) {
		return "", fmt.Errorf("%s is closed to user %s", base, who.name)
	}
	home, err := os.MkdirTemp(base, homePrefix)
	if err != nil {
		return "", err
	}
	return home, who.open(home)
}
