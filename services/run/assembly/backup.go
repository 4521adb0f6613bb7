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
	"github.com/memory-ledger/ledger/infra/localchain"
	"github.com/memory-ledger/ledger/infra/localnats"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/services/run/backup"
	"github.com/memory-ledger/ledger/services/run/config"
)

// secretsFolder and chainFolder are the folders of the secrets and of the local chain in
// a data folder.
const (
	secretsFolder = "secrets"
	chainFolder   = "chain"
)

// Backup copies the wanted parts, each of which must be there, or all that are there if
// wanted is nil, into dir while everything runs. If one part fails, Backup removes the
// streams and the chain that it copied before, so that the same command can run again.
// Copied secrets stay: copying them again is no error. A crash leaves all copied parts.
func Backup(ctx context.Context, cfg config.Config, dir string, wanted []backup.Part, say func(backup.Done), progress backup.Progress) (err error) {
	parts, missing := chosen(wanted, func(part backup.Part) bool { return isKept(cfg, part) })
	if missing != "" {
		return fmt.Errorf("back up: a local run with this log keeps no %s in %s", missing, cfg.DataDir)
	}
	var made []string
	defer func() {
		for _, part := range made {
			if err != nil {
				err = errors.Join(err, backup.Remove(part))
			}
		}
		if err != nil {
			_ = os.Remove(dir) // only if it is empty
		}
	}()
	var copied []backup.Done
	if err := asAdmin(ctx, Dial(cfg), "backup", func(ctx context.Context, nc *nats.Conn) error {
		for _, part := range streamsOf(parts) {
			to := filepath.Join(dir, string(part))
			done, err := backup.Stream(ctx, nc, part, to, progress)
			if err != nil {
				return err
			}
			made, copied = append(made, to), append(copied, done)
		}
		return nil
	}); err != nil {
		return err
	}
	if slices.Contains(parts, backup.Secrets) {
		done, err := backup.SaveSecrets(filepath.Join(cfg.DataDir, secretsFolder), filepath.Join(dir, string(backup.Secrets)))
		if err != nil {
			return err
		}
		copied = append(copied, done)
	}
	// The chain is copied after the log, so it holds everything that the copied log calls
	// confirmed.
	if slices.Contains(parts, backup.Chain) {
		to := filepath.Join(dir, string(backup.Chain))
		done, err := backup.SaveChain(filepath.Join(cfg.DataDir, chainFolder), to)
		if err != nil {
			return err
		}
		made, copied = append(made, to), append(copied, done)
	}
	for _, done := range copied {
		say(done)
	}
	return nil
}

// chosen returns the wanted parts, or all that there are if wanted is nil, in the order of
// backup.Parts. missing is a wanted part that is not there, if any.
func chosen(wanted []backup.Part, has func(backup.Part) bool) (parts []backup.Part, missing backup.Part) {
	for _, part := range backup.Parts {
		named := slices.Contains(wanted, part)
		switch {
		case !named && wanted != nil:
		case has(part):
			parts = append(parts, part)
		case named:
			return nil, part
		}
	}
	return parts, ""
}

// isKept reports whether there is a part to copy. A deployment keeps its secrets elsewhere
// and has no local chain.
func isKept(cfg config.Config, part backup.Part) bool {
	switch part {
	case backup.Secrets:
		return besideLog(cfg) && exists(filepath.Join(cfg.DataDir, secretsFolder))
	case backup.Chain:
		return besideLog(cfg) && hasChain(filepath.Join(cfg.DataDir, chainFolder))
	}
	return true
}

// besideLog reports whether the data folder is of the local run that uses the log of
// cfg.NATSURL. Another log's secrets and chain must not get into a backup of this one.
func besideLog(cfg config.Config) bool {
	if run, err := datadir.LoadRun(cfg.DataDir); err == nil {
		return run.Serves(cfg.NATSURL)
	}
	return !exists(filepath.Join(cfg.DataDir, natsFolder)) // its own log does not run
}

// Restore puts back the wanted parts of dir, each of which must be there, or all that are
// there if wanted is nil. It puts them into the servers of cfg.NATSURL or, if that is
// empty, into the data folder of a local run, which must not be running. A local run's
// secrets and chain go only into a data folder. Before Restore puts back anything, it
// reads every part but the secrets, and checks the streams with a trial restore, which it
// throws away. Consumers that were provisioned on an empty log exist again after the
// restore.
//
// A crash leaves a folder or a cluster without some of the parts. Restore does not
// replace a complete part, so remove it before you try again.
func Restore(ctx context.Context, cfg config.Config, dir string, wanted []backup.Part, say func(backup.Done), progress backup.Progress) error {
	parts, err := partsIn(ctx, dir, wanted, progress)
	if err != nil {
		return err
	}
	if cfg.NATSURL == "" {
		return restoreFolder(ctx, cfg, dir, parts, say, progress)
	}
	if streams := streamsOf(parts); len(streams) == 0 || wanted != nil && len(streams) < len(parts) {
		return errors.New("restore: secrets and chain go only into a data folder: unset NATS_URL")
	}
	return restoreStreams(ctx, cfg, Dial(cfg), dir, parts, say, progress)
}

func restoreFolder(ctx context.Context, cfg config.Config, dir string, parts []backup.Part, say func(backup.Done), progress backup.Progress) (err error) {
	folder, err := datadir.Open(cfg.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	if err := restoreFiles(folder, dir, parts, say); err != nil {
		return err
	}
	if len(streamsOf(parts)) == 0 {
		return nil
	}
	store, err := folder.Sub(natsFolder)
	if err != nil {
		return err
	}
	server, err := localnats.Start(ctx, localnats.Config{Dir: store, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(context.WithoutCancel(ctx))) }()
	connect := func(o ...nats.Option) (*nats.Conn, error) { return server.Connect(o...) }
	return restoreStreams(ctx, cfg, connect, dir, parts, say, progress)
}

func restoreStreams(ctx context.Context, cfg config.Config, connect Connector, dir string, parts []backup.Part, say func(backup.Done), progress backup.Progress) error {
	return asAdmin(ctx, connect, "restore", func(ctx context.Context, nc *nats.Conn) error {
		for _, part := range streamsOf(parts) {
			replicas := cmp.Or(cfg.NATSReplicas, natsconf.Replicas(nc))
			done, err := backup.Restore(ctx, nc, part, filepath.Join(dir, string(part)), replicas, progress)
			if err != nil {
				return err
			}
			say(done)
		}
		return nil
	})
}

// partsIn checks the wanted parts of a folder, or all that it has. It returns them in the
// order of the restore: first the parts without which the rest is of no use.
func partsIn(ctx context.Context, dir string, wanted []backup.Part, progress backup.Progress) ([]backup.Part, error) {
	copied := func(part backup.Part) string { return filepath.Join(dir, string(part)) }
	parts, missing := chosen(wanted, func(part backup.Part) bool { return exists(copied(part)) })
	switch {
	case missing != "":
		return nil, fmt.Errorf("restore: %w of %s in %s", backup.ErrNone, missing, dir)
	case len(parts) == 0:
		return nil, fmt.Errorf("restore: %w in %s", backup.ErrNone, dir)
	}
	slices.Reverse(parts)
	for _, part := range parts {
		if err := backup.Check(ctx, part, copied(part), progress); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// restoreFiles puts back the parts that a data folder keeps outside the log's server.
func restoreFiles(folder *datadir.Dir, dir string, parts []backup.Part, say func(backup.Done)) error {
	if slices.Contains(parts, backup.Secrets) {
		done, err := backup.CopySecrets(filepath.Join(dir, string(backup.Secrets)), filepath.Join(folder.Path(), secretsFolder))
		if err != nil {
			return err
		}
		say(done)
	}
	if slices.Contains(parts, backup.Chain) {
		done, err := backup.PutChain(filepath.Join(dir, string(backup.Chain)), filepath.Join(folder.Path(), chainFolder))
		if err != nil {
			return err
		}
		say(done)
	}
	return nil
}

// streamsOf returns the parts that are streams, in the given order.
func streamsOf(parts []backup.Part) (streams []backup.Part) {
	for _, part := range parts {
		if part == backup.Log || part == backup.Keystore {
			streams = append(streams, part)
		}
	}
	return streams
}

// hasChain reports whether a local chain was ever saved in a folder.
func hasChain(dir string) bool { return exists(filepath.Join(dir, localchain.StateName)) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
