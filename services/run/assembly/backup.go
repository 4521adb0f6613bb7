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
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/localchain"
	"github.com/memory-ledger/ledger/infra/localnats"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/run/backup"
	"github.com/memory-ledger/ledger/services/run/config"
)

// Backup copies the wanted parts, each of which must be there, or all that are there if
// wanted is nil, into dir while everything runs. If one part fails, Backup removes the
// streams and the chain that it copied before, so that the same command can run again.
// Copied secrets stay: copying them again is no error. A crash leaves all copied parts.
func Backup(ctx context.Context, cfg config.Config, dir string, wanted []backup.Part, say func(backup.Done), progress backup.Progress) error {
	parts, missing := chosen(wanted, func(part backup.Part) bool { return isKept(cfg, part) })
	if missing != "" {
		return fmt.Errorf("back up: a local run with this log keeps no %s in %s", missing, cfg.DataDir)
	}
	act := func(ctx context.Context, nc *nats.Conn) error {
		return copyParts(ctx, cfg, nc, dir, parts, say, progress)
	}
	return asRecordedAdmin(ctx, cfg, "backup", map[string]string{"to": inFull(dir), "parts": namesOf(parts)}, act)
}

// namesOf lists parts for the admin log.
func namesOf(parts []backup.Part) string {
	var names []string
	for _, part := range parts {
		names = append(names, string(part))
	}
	return strings.Join(names, ",")
}

// inFull returns a folder's whole path, which tells more than where a command was run.
func inFull(dir string) string {
	if full, err := filepath.Abs(dir); err == nil {
		return full
	}
	return dir
}

func copyParts(ctx context.Context, cfg config.Config, nc *nats.Conn, dir string, parts []backup.Part, say func(backup.Done), progress backup.Progress) (err error) {
	var made []string
	was := exists(dir) // such as an empty folder with an owner of its own, or a file
	defer func() {
		for _, part := range made {
			if err != nil {
				err = errors.Join(err, backup.Remove(part))
			}
		}
		if err != nil && !was {
			_ = os.Remove(dir) // only if it is empty
		}
	}()
	var copied []backup.Done
	for _, part := range parts {
		to := filepath.Join(dir, string(part))
		done, err := backup.Copy(ctx, nc, part, folderOf(cfg, part), to, progress)
		if err != nil {
			return err
		}
		if copied = append(copied, done); part != backup.Secrets {
			made = append(made, to)
		}
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

// folderOf returns the folder of the secrets or of the chain in a data folder.
func folderOf(cfg config.Config, part backup.Part) string {
	return filepath.Join(cfg.DataDir, string(part))
}

// isKept reports whether there is a part to copy. A deployment keeps its secrets elsewhere
// and has no local chain.
func isKept(cfg config.Config, part backup.Part) bool {
	switch part {
	case backup.Secrets:
		return besideLog(cfg) && exists(folderOf(cfg, part))
	case backup.Chain:
		return besideLog(cfg) && exists(filepath.Join(folderOf(cfg, part), localchain.StateName)) // one was ever saved
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
// throws away. Servers are provisioned after a restored log, which has no consumers. A keystore
// alone may be restored into one whose keys are lost or damaged: see [backup.PutBack].
//
// A crash leaves a folder or a cluster without some of the parts, or without consumers. The
// log is last. Restore does not replace a keystore, so the log alone is put back then.
func Restore(ctx context.Context, cfg config.Config, dir string, wanted []backup.Part, say func(backup.Done), progress backup.Progress) error {
	parts, err := partsIn(ctx, dir, wanted, progress)
	if err != nil {
		return err
	}
	r := restoring{cfg, dir, parts, slices.Contains(wanted, backup.Admin), say, progress}
	if cfg.NATSURL == "" {
		return r.toFolder(ctx)
	}
	if r.parts = streamsOf(parts); len(r.parts) == 0 || wanted != nil && len(r.parts) < len(parts) {
		return errors.New("restore: secrets and chain go only into a data folder: unset NATS_URL")
	}
	if err := asAdmin(ctx, cfg, "restore", r.all); err != nil || !slices.Contains(r.parts, backup.Log) {
		return err
	}
	cfg.NATSReplicas = 0 // as many as the log has
	if _, err := Provision(ctx, cfg, slog.New(slog.DiscardHandler), Dial(cfg)); err != nil {
		return fmt.Errorf("everything is restored, but the log may have no consumers: run `ledger provision`: %w", err)
	}
	return nil
}

type restoring struct {
	cfg      config.Config
	dir      string
	parts    []backup.Part
	admin    bool // the admin log was named
	say      func(backup.Done)
	progress backup.Progress
}

// toFolder starts the log's server of a stopped local run's folder, and restores into it.
func (r *restoring) toFolder(ctx context.Context) (err error) {
	folder, err := datadir.Open(r.cfg.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	store, err := folder.Sub(natsFolder)
	if err != nil {
		return err
	}
	return localnats.With(ctx, localnats.Config{Dir: store}, func(nc *nats.Conn) error { return r.all(ctx, nc) })
}

// all puts the admin log back first, so that it can say that the rest begins. If there is
// one with records already, that one goes on, and the copy stays in the backup.
func (r *restoring) all(ctx context.Context, nc *nats.Conn) error {
	if slices.Contains(r.parts, backup.Admin) {
		if err := r.put(ctx, nc, backup.Admin); err != nil && (r.admin || !errors.Is(err, backup.ErrNotEmpty)) {
			return err
		}
	}
	about := map[string]string{"from": inFull(r.dir), "parts": namesOf(r.parts)}
	return recorded(ctx, r.cfg, nc, "restore", about, func() error {
		for _, part := range r.parts {
			if part == backup.Admin {
				continue
			}
			if err := r.put(ctx, nc, part); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *restoring) put(ctx context.Context, nc *nats.Conn, part backup.Part) error {
	from, replicas := filepath.Join(r.dir, string(part)), cmp.Or(r.cfg.NATSReplicas, natsconf.Replicas(nc))
	done, err := backup.Restore(ctx, nc, part, from, folderOf(r.cfg, part), replicas, r.progress)
	switch {
	case part != backup.Keystore || !errors.Is(err, backup.ErrNotEmpty):
	case len(r.parts) == 1:
		done, err = r.putBack(ctx, nc, from)
	default:
		err = fmt.Errorf("%w; if a restore of this backup was interrupted, put back the rest with --only log", err)
	}
	if err == nil {
		r.say(done)
	}
	return err
}

// putBack puts back the data keys that a keystore in use has lost, or that are damaged.
func (r *restoring) putBack(ctx context.Context, nc *nats.Conn, from string) (backup.Done, error) {
	keys, err := openKeys(ctx, r.cfg, nc)
	if err != nil {
		return backup.Done{}, fmt.Errorf("put data keys back into a keystore in use: %w", err)
	}
	done, err := backup.PutBack(ctx, from, keys)
	if err == nil {
		err = syncLocal(r.cfg, keystore.Stream)
	}
	return done, err
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

// streamsOf returns the parts that are streams, in the given order.
func streamsOf(parts []backup.Part) (streams []backup.Part) {
	for _, part := range parts {
		if part != backup.Secrets && part != backup.Chain {
			streams = append(streams, part)
		}
	}
	return streams
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
