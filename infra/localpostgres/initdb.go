package localpostgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/memory-ledger/ledger/infra/child"
	"github.com/memory-ledger/ledger/infra/datadir"
)

// ctypes are tried in turn. Strings sort by bytes everywhere (collation C), so
// their order never depends on the machine. The ctype decides which characters are
// letters. It follows Unicode if the system has the locale, as ILIKE on é or я needs.
var ctypes = []string{"C.UTF-8", "C.utf8", "C"}

// createCluster runs initdb under another name and renames the result, so that the cluster
// is complete or absent. It first deletes what a start that was killed left under that
// name, and clusters of other versions of PostgreSQL: the log has everything.
func createCluster(ctx context.Context, p place, inst installation, cluster string, noSync bool) error {
	old, err := filepath.Glob(filepath.Join(p.home, "cluster*"))
	if err != nil {
		return err
	}
	for _, dir := range old {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	var errs []error
	for _, ctype := range ctypes {
		fresh := cluster + ".new"
		err := errors.Join(os.Mkdir(fresh, 0o700), p.who.give(fresh))
		if err == nil {
			err = runInitdb(ctx, p.who, inst, fresh, ctype, noSync)
		}
		if err == nil {
			return errors.Join(os.Rename(fresh, cluster), datadir.SyncDir(p.home))
		}
		errs = append(errs, err, os.RemoveAll(fresh))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

func runInitdb(ctx context.Context, who *account, inst installation, dir, ctype string, noSync bool) error {
	args := []string{
		"--pgdata=" + dir, "--username=" + superuser, "--encoding=UTF8",
		"--locale=C", "--lc-ctype=" + ctype, "--data-checksums",
		"--auth-local=trust", "--auth-host=scram-sha-256",
	}
	if noSync {
		args = append(args, "--no-sync")
	}
	return run(ctx, who, dir, inst.program("initdb"), args...)
}

// run runs one of the server's programs in a folder.
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
