package localpostgres_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memory-ledger/ledger/infra/localpostgres"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
)

// awaitEnd waits for the end of a process that is not our child.
func awaitEnd(t *testing.T, proc *os.Process) {
	t.Helper()
	err := proc.WithHandle(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			n, err := unix.Poll(fds, 20_000)
			if err == unix.EINTR {
				continue
			}
			if n != 1 || err != nil {
				t.Errorf("process %d is still there (%v)", proc.Pid, err)
			}
			return
		}
	})
	must(t, err)
}

func TestTakeover(t *testing.T) {
	t.Parallel()
	dir := pgtest.Folder(t)
	s := pgtest.Start(t, localpostgres.Config{Dir: dir, NoSync: true})
	exe(t, s.URL(), "CREATE TABLE kept (v text); INSERT INTO kept VALUES ('kept')")
	stop(t, s)
	run, postmaster := startRun(t, dir)
	proc, err := os.FindProcess(postmaster)
	must(t, err)
	must(t, run.Kill())
	s = pgtest.Start(t, localpostgres.Config{Dir: dir, NoSync: true})
	awaitEnd(t, proc)
	wantRow(t, s.URL(), "SELECT v FROM kept", "kept")
}

func TestRootRunsItUnprivileged(t *testing.T) {
	slow(t)
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root has privileges to drop")
	}
	s := pgtest.Start(t, localpostgres.Config{NoSync: true})
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	must(t, err)
	for _, line := range strings.Split(string(status), "\n") {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok && strings.Contains(ids, "\t0") {
			t.Errorf("runs with user ids %s", ids)
		}
		if caps, ok := strings.CutPrefix(line, "CapEff:\t"); ok && strings.Trim(caps, "0") != "" {
			t.Errorf("runs with capabilities %s", caps)
		}
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.PID()))
	if err != nil || strings.Contains(string(environ), "HOME=") {
		t.Errorf("sees our environment: %q, %v", environ, err)
	}
}
