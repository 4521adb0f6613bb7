package localpostgres

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
)

// leftovers lists the server processes whose working folder is the cluster. A
// postmaster and all processes that it forks work there. A shell may work there,
// too, so leftovers also looks at the program's name. Dead processes that were not
// reaped no longer have a working folder and are not listed.
func leftovers(cluster string) ([]int, error) {
	want, err := os.Stat(cluster)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, entry := range procs {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// An error means that the process has just ended, or belongs to another user.
		cwd, err := os.Stat(filepath.Join("/proc", entry.Name(), "cwd"))
		if err != nil || !os.SameFile(cwd, want) {
			continue
		}
		if exe, err := os.Readlink(filepath.Join("/proc", entry.Name(), "exe")); err == nil && isServer(exe) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// isServer also accepts a program whose file was replaced while the server ran.
func isServer(exe string) bool {
	switch filepath.Base(exe) {
	case "postgres", "postgres (deleted)", "initdb", "initdb (deleted)":
		return true
	}
	return false
}

// forgetLeftovers removes the pid file once no process works in the cluster. The
// server would do so itself, unless that pid now belongs to an unrelated process, or
// to a dead process that was not reaped. Both are common in containers, and the
// server would refuse to start. The caller has proved that there are no leftovers,
// so the file is of no use.
func forgetLeftovers(cluster string) error {
	if err := os.Remove(pidFile(cluster)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// forgetSocket removes the files that a killed server left in its socket folder, for
// the same reason: the lock beside the socket also names the pid. The folder is
// private to the cluster, and no process works in the cluster.
func forgetSocket(dir string, port int) error {
	for _, name := range []string{socketFile(dir, port), socketFile(dir, port) + ".lock"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
