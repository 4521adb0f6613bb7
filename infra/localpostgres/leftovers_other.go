//go:build unix && !linux

package localpostgres

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// leftovers returns the postmaster that the cluster's pid file names, if that
// process is up and is a PostgreSQL server.
func leftovers(cluster string) ([]int, error) {
	text, err := os.ReadFile(pidFile(cluster))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid < 2 {
		return nil, fmt.Errorf("%s names no process", pidFile(cluster))
	}
	out, err := exec.Command("ps", "-o", "stat=", "-o", "comm=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return nil, nil // ps fails if there is no such process
	}
	state, name, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if strings.HasPrefix(state, "Z") || filepath.Base(strings.TrimSpace(name)) != "postgres" {
		return nil, nil
	}
	return []int{pid}, nil
}

// forgetLeftovers leaves the pid file to the server, which checks it against
// its shared memory: here we can't prove that none of its processes is left.
func forgetLeftovers(string) error { return nil }

// forgetSocket leaves the socket's lock to the server, for the same reason.
func forgetSocket(string, int) error { return nil }
