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
)

// StartStandby copies a running server into cfg.Dir, an empty folder, and starts the
// copy: a hot standby that follows the server over its Unix socket. The server waits for
// the standby if the server's own settings have synchronous_standby_names.
func StartStandby(ctx context.Context, cfg Config, of *Server) (*Server, error) {
	if err := cfg.normalise(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("local PostgreSQL: %w", err)
	}
	p, err := findPlace(cfg.Root, cfg.Dir)
	if err != nil {
		return nil, err
	}
	found, err := installations(candidates(cfg.BinDir), p.who)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.Mkdir(p.cluster(), 0o700), p.who.give(p.cluster())); err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(found[0].bin, "pg_basebackup"), "--write-recovery-conf", "--checkpoint=fast",
		"--pgdata="+p.cluster(), "--host="+of.sockets, fmt.Sprintf("--port=%d", of.port), "--username="+superuser)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = p.home, environment(), p.who.attr()
	lines := child.NewLines(5, nil)
	cmd.Stdout, cmd.Stderr = lines, lines
	proc, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, err
	}
	select {
	case <-proc.Done():
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("pg_basebackup: %w", ctx.Err()), proc.Kill())
	}
	if err := proc.Err(); err != nil {
		return nil, fmt.Errorf("pg_basebackup: %w: %s", err, lines.Last())
	}
	return Start(ctx, cfg)
}
