package localpostgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/memory-ledger/ledger/infra/child"
	"github.com/memory-ledger/ledger/infra/datadir"
)

// createCluster runs initdb under another name and renames the result, so that the cluster
// is complete or absent. It first deletes what a start that was killed left under that
// name, and clusters of other versions of PostgreSQL: the log has everything.
func createCluster(ctx context.Context, p place, inst installation, cluster string, noSync bool) error {
	old, err := fs.Glob(os.DirFS(p.home), "cluster*")
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.RemoveAll(filepath.Join(p.home, name)); err != nil {
			return err
		}
	}
	fresh := cluster + ".new"
	if err := errors.Join(os.Mkdir(fresh, 0o700), p.who.give(fresh)); err != nil {
		return err
	}
	args := []string{
		"--pgdata=" + fresh, "--username=" + superuser, "--encoding=UTF8",
		"--locale=C", // strings sort by bytes, so their order never depends on the machine
		"--data-checksums", "--auth-local=trust", "--auth-host=scram-sha-256",
	}
	if noSync {
		args = append(args, "--no-sync")
	}
	if err := run(ctx, p.who, fresh, inst.program("initdb"), args...); err != nil {
		return err
	}
	return errors.Join(os.Rename(fresh, cluster), datadir.SyncDir(p.home))
}

func run(ctx context.Context, who *account, dir, program string, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, environment(), who.attr()
	lines := child.NewLines(5, nil)
	cmd.Stdout, cmd.Stderr = lines, lines
	proc, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return err
	}
	select {
	case <-proc.Done():
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s: %w", filepath.Base(program), ctx.Err()), proc.Kill())
	}
	if err := proc.Err(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, lines.Last())
	}
	return nil
}

// environment returns the only variables that the server's programs get. Our own
// variables hold secrets, and PG* variables would change what the programs do.
func environment() []string {
	env := []string{"LC_ALL=C", "TZ=UTC", "PATH=/usr/bin:/bin"}
	for _, name := range []string{"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// account is the unprivileged user that the server runs as. A nil account means that the
// server runs as our own user, which is the case unless we are root.
type account struct {
	uid, gid uint32
	name     string
}

func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil && uid != 0 {
			return &account{uid: uint32(uid), gid: uint32(gid), name: name}, nil
		}
	}
	return nil, errors.New("PostgreSQL does not run as root, and neither user postgres nor user nobody exists; create one, or set DATABASE_URL")
}

// attr makes a child run as the account, without our other groups.
func (a *account) attr() *syscall.SysProcAttr {
	if a == nil {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.uid, Gid: a.gid}}
}

// give makes the account the owner of a file or folder.
func (a *account) give(path string) error {
	if a == nil {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}
