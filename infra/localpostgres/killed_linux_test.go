package localpostgres_test

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memory-ledger/ledger/infra/child"
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
	if err != nil {
		t.Fatal(err)
	}
}

func find(t *testing.T, pid int) *os.Process {
	t.Helper()
	proc, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	return proc
}

func TestServerDiesWithAKilledRun(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	run, postmaster := startRun(t, pgtest.Folder(t))
	proc := find(t, postmaster)
	if err := run.Kill(); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, proc)
}

func TestTakeover(t *testing.T) {
	t.Parallel()
	for name, stopped := range map[string]bool{"of a dying server": false, "of a hung server": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := pgtest.Folder(t)
			s := pgtest.Start(t, localpostgres.Config{Dir: dir, NoSync: true})
			exe(t, s.URL(), "CREATE TABLE kept (v text); INSERT INTO kept VALUES ('kept')")
			stop(t, s)
			run, postmaster := startRun(t, dir)
			proc := find(t, postmaster)
			if stopped {
				if err := proc.Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			if err := run.Kill(); err != nil {
				t.Fatal(err)
			}
			s = pgtest.Start(t, localpostgres.Config{Dir: dir, NoSync: true})
			awaitEnd(t, proc)
			wantRow(t, s.URL(), "SELECT v FROM kept", "kept")
		})
	}
}

// After a restart of the machine, or of a container, the pid in the pid file, and in
// the lock beside the socket, often belongs to an unrelated process. That process must
// not keep the server from starting, and must not be signaled.
func TestStalePIDFileOfAStranger(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	dir := pgtest.Folder(t)
	s := pgtest.Start(t, localpostgres.Config{Dir: dir, NoSync: true})
	cluster := filepath.Join(dir, "cluster")
	info, err := os.Stat(cluster)
	if err != nil {
		t.Fatal(err)
	}
	note, err := os.ReadFile(filepath.Join(cluster, "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(address.Query().Get("host"), ".s.PGSQL.5432.lock")
	socketNote, err := os.ReadFile(lock)
	if err != nil {
		t.Fatal(err)
	}
	stop(t, s)
	stranger := exec.Command("/bin/sleep", "1000")
	if os.Geteuid() == 0 { // the server only minds processes of its own user
		owner := info.Sys().(*syscall.Stat_t)
		stranger.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	proc, err := child.Start(stranger, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proc.Kill() })
	for path, note := range map[string][]byte{filepath.Join(cluster, "postmaster.pid"): note, lock: socketNote} {
		_, rest, _ := strings.Cut(string(note), "\n")
		if err := os.WriteFile(path, fmt.Appendf(nil, "%d\n%s", proc.PID(), rest), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = pgtest.Start(t, localpostgres.Config{Dir: dir, NoSync: true})
	wantRow(t, s.URL(), "SELECT 'up'", "up")
	select {
	case <-proc.Done():
		t.Error("the stranger was hurt")
	default:
	}
}

func TestRootRunsItUnprivileged(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root has privileges to drop")
	}
	s := pgtest.Start(t, localpostgres.Config{NoSync: true})
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	if err != nil {
		t.Fatal(err)
	}
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

// t.TempDir stands for root's home: all other users are shut out.
func TestRootInAClosedFolderGoesElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("anybody else runs it as themselves")
	}
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(closed, "pg")
	cfg := localpostgres.Config{Dir: dir, NoSync: true}
	s := pgtest.Start(t, cfg)
	exe(t, s.URL(), "CREATE TABLE kept (v text); INSERT INTO kept VALUES ('kept')")
	home, err := os.Readlink(filepath.Join(dir, "elsewhere"))
	if err != nil {
		t.Fatal(err)
	}
	stop(t, s)
	s = pgtest.Start(t, cfg)
	wantRow(t, s.URL(), "SELECT v FROM kept", "kept")

	// A copy of the folder must not use the first folder's server.
	other := filepath.Join(closed, "copy")
	if err := os.CopyFS(other, os.DirFS(dir)); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(other, "elsewhere"))
	if err := os.Symlink(home, filepath.Join(other, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	twin := pgtest.Start(t, localpostgres.Config{Dir: other, NoSync: true})
	wantRow(t, twin.URL(), "SELECT (to_regclass('kept') IS NULL)::text", "true")
	wantRow(t, s.URL(), "SELECT v FROM kept", "kept")
	stop(t, twin)
	stop(t, s)

	if info, err := os.Stat(closed); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("a folder above was changed: %v, %v", info, err)
	}
	for _, d := range []string{dir, other} {
		if err := localpostgres.Remove(d); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(home); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left elsewhere: %v", err)
	}
}

// A data folder of ours (0700) is opened for passing through, for one group.
func TestRootOpensOnlyWhatIsOurs(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("anybody else runs it as themselves")
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Skip(err)
	}
	root := filepath.Join(filepath.Dir(pgtest.Folder(t)), "pg")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	pgtest.Start(t, localpostgres.Config{Dir: filepath.Join(root, "db"), Root: root, NoSync: true})
	for _, dir := range []string{root, filepath.Join(root, "db")} {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		gid := strconv.Itoa(int(info.Sys().(*syscall.Stat_t).Gid))
		if info.Mode().Perm() != 0o710 || gid != u.Gid {
			t.Errorf("%s has mode %o and group %s", dir, info.Mode().Perm(), gid)
		}
	}
	if _, err := os.Lstat(filepath.Join(root, "db", "elsewhere")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("went elsewhere: %v", err)
	}
}
