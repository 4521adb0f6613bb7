package assembly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/localnats"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/services/backup"
	"github.com/memory-ledger/ledger/services/config"
)

// secretsFolder is where a data folder keeps its secrets.
const secretsFolder = "secrets"

// Backup copies the parts that were asked for into dir, while everything runs.
// Where one of them fails, those that were made before it are removed, so that
// the same command can be given again; a crash leaves them.
func Backup(ctx context.Context, cfg config.Config, dir string, parts []backup.Part, say func(backup.Done)) (err error) {
	var made []string
	defer func() {
		for _, part := range made {
			if err != nil {
				err = errors.Join(err, backup.Remove(part))
			}
		}
		if err != nil {
			_ = os.Remove(dir) // where nothing else is in it
		}
	}()
	var copied []backup.Done
	if err := asAdmin(ctx, Dial(cfg), "backup", func(ctx context.Context, nc *nats.Conn) error {
		for _, part := range []backup.Part{backup.Log, backup.Keystore} {
			if !slices.Contains(parts, part) {
				continue
			}
			to := filepath.Join(dir, string(part))
			done, err := backup.Stream(ctx, nc, part, to)
			if err != nil {
				return err
			}
			made, copied = append(made, to), append(copied, done)
		}
		return nil
	}); err != nil {
		return err
	}
	from := filepath.Join(cfg.DataDir, secretsFolder)
	// A deployment keeps its secrets elsewhere.
	if exists(from) && slices.Contains(parts, backup.Secrets) {
		done, err := backup.CopySecrets(from, filepath.Join(dir, string(backup.Secrets)))
		if err != nil {
			return err
		}
		copied = append(copied, done)
	}
	for _, done := range copied {
		say(done)
	}
	return nil
}

// Restore puts back what is in dir: into the servers of cfg.NATSURL, or, where
// that is empty, into the data folder of a local run, which must not run. A
// crash leaves a folder or a cluster without some of the parts; a part that is
// whole is not replaced, so remove it before trying again. The consumers that an
// empty log had been provisioned with are made again. Nothing is put back before
// every part was read and found whole.
func Restore(ctx context.Context, cfg config.Config, dir string, say func(backup.Done)) (err error) {
	parts, err := partsIn(dir)
	if err != nil {
		return err
	}
	connect := Dial(cfg)
	if cfg.NATSURL == "" {
		var close func() error
		if connect, close, err = openFolder(ctx, cfg, dir, say); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, close()) }()
	}
	return asAdmin(ctx, connect, "restore", func(ctx context.Context, nc *nats.Conn) error {
		for _, part := range parts {
			replicas := cmp.Or(cfg.NATSReplicas, natsconf.Replicas(nc))
			done, err := backup.Restore(ctx, nc, part, filepath.Join(dir, string(part)), replicas)
			if err != nil {
				return err
			}
			say(done)
		}
		return nil
	})
}

// partsIn returns which streams a folder has copies of, in the order in which they
// are put back. It may be none where it has the secrets alone.
func partsIn(dir string) (parts []backup.Part, err error) {
	for _, part := range []backup.Part{backup.Keystore, backup.Log} {
		copied := filepath.Join(dir, string(part))
		if !exists(copied) {
			continue
		}
		if err := backup.Check(part, copied); err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 && !exists(filepath.Join(dir, string(backup.Secrets))) {
		return nil, fmt.Errorf("restore: %w in %s", backup.ErrNone, dir)
	}
	return parts, nil
}

// openFolder puts the secrets into the data folder, without which the rest is of
// no use, and starts a server on it.
func openFolder(ctx context.Context, cfg config.Config, dir string, say func(backup.Done)) (Connector, func() error, error) {
	folder, err := datadir.Open(cfg.DataDir)
	if err != nil {
		return nil, nil, err
	}
	fail := func(err error) (Connector, func() error, error) {
		return nil, nil, errors.Join(err, folder.Close())
	}
	if secrets := filepath.Join(dir, string(backup.Secrets)); exists(secrets) {
		done, err := backup.CopySecrets(secrets, filepath.Join(folder.Path(), secretsFolder))
		if err != nil {
			return fail(err)
		}
		say(done)
	}
	store, err := folder.Sub(natsFolder)
	if err != nil {
		return fail(err)
	}
	server, err := localnats.Start(ctx, localnats.Config{Dir: store, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fail(err)
	}
	stop := func() error { return errors.Join(server.Stop(context.WithoutCancel(ctx)), folder.Close()) }
	return func(o ...nats.Option) (*nats.Conn, error) { return server.Connect(o...) }, stop, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
