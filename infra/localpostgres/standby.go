package localpostgres

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	p, err := findPlace(cfg.Dir)
	if err != nil {
		return nil, err
	}
	inst, err := find(candidates(), p.who)
	if err != nil {
		return nil, err
	}
	cluster := p.cluster(inst)
	if err := errors.Join(os.Mkdir(cluster, 0o700), p.who.give(cluster)); err != nil {
		return nil, err
	}
	if err := run(ctx, p.who, p.home, inst.program("pg_basebackup"), "--write-recovery-conf", "--checkpoint=fast",
		"--pgdata="+cluster, "--host="+of.sockets, fmt.Sprintf("--port=%d", of.port), "--username="+superuser); err != nil {
		return nil, err
	}
	return Start(ctx, cfg)
}
