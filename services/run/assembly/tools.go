package assembly

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/localnats"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/projections/rebuild"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/run/backup"
	"github.com/memory-ledger/ledger/services/run/config"
)

// Rebuild rebuilds the read models while the services run. It fills in o.Pool and
// o.Log.
func Rebuild(ctx context.Context, cfg config.Config, o rebuild.Config) (done rebuild.Result, err error) {
	err = asRecordedAdmin(ctx, cfg, Dial(cfg), "rebuild", map[string]string{"force": strconv.FormatBool(o.Force)}, func(ctx context.Context, nc *nats.Conn) error {
		log, err := eventlog.Open(ctx, nc)
		if err != nil {
			return err
		}
		if o.Pool, err = schema.OpenPool(ctx, cfg.DatabaseURL, schema.Live, 2); err != nil {
			return err
		}
		defer o.Pool.Close()
		o.Log, o.Lag = partReader(cfg, log), log.Lag()
		done, err = rebuild.Run(ctx, o)
		return err
	})
	return done, err
}

// partReader returns the log as tools read it: through a consumer in a local run, by
// direct gets where they may have no right to more.
func partReader(cfg config.Config, log *eventlog.JetStream) audit.Log {
	if run, err := datadir.LoadRun(cfg.DataDir); err == nil && run.NATSURL == cfg.NATSURL {
		return log.Bulk()
	}
	return log
}

// CheckKey tries to open every entry of the keystore with a master key, or those of a
// backup if dir names one. It changes nothing.
func CheckKey(ctx context.Context, cfg config.Config, setting config.MasterKeySetting, dir string, progress func(done keystore.Checked, total uint64)) (id string, done keystore.Checked, err error) {
	key, err := openMaster(ctx, setting)
	if err != nil {
		return "", done, err
	}
	check := func(ctx context.Context, nc *nats.Conn) error {
		keys, err := openKeysWith(ctx, cfg, nc, []keystore.Master{key})
		if err != nil {
			return err
		}
		total, err := keys.Count(ctx)
		if err != nil {
			return err
		}
		done, err = keys.CheckAll(ctx, func(done keystore.Checked) { progress(done, max(total, done.Entries)) })
		return err
	}
	if dir == "" {
		err = asAdmin(ctx, Dial(cfg), "check-key", check)
		return key.ID(), done, err
	}
	copied := filepath.Join(dir, string(backup.Keystore))
	if !exists(copied) {
		return "", done, fmt.Errorf("%w of %s in %s", backup.ErrNone, backup.Keystore, dir)
	}
	err = backup.Look(ctx, backup.Keystore, copied, func(nc *nats.Conn) error { return check(ctx, nc) })
	return key.ID(), done, err
}

// syncLocal makes durable what a tool wrote to a local run's log: that server does not sync
// its own writes. If the data folder has no such server, there is nothing to sync.
func syncLocal(cfg config.Config, streams ...string) error {
	for _, stream := range streams {
		err := localnats.SyncStream(filepath.Join(cfg.DataDir, natsFolder), stream)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// forgetTimeout bounds a Forget, which reads the owner's whole history.
const forgetTimeout = 2 * time.Minute

// Forget ends all grants, API keys and sessions of an owner and destroys
// their data key. Access ends first, so that no grant or API key can write a memory
// that can't be read. A crash in between leaves the data key; run Forget again.
func Forget(ctx context.Context, cfg config.Config, owner events.Owner) (done keystore.Forgotten, err error) {
	ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
	defer cancel()
	err = asRecordedAdmin(ctx, cfg, Dial(cfg), "forget", map[string]string{"owner": string(owner)}, func(ctx context.Context, nc *nats.Conn) error {
		js, err := jetstream.New(nc)
		if err != nil {
			return err
		}
		registered, err := endAccess(ctx, nc, owner)
		if err == nil {
			done, err = keystore.Forget(ctx, js, owner, registered)
		}
		return err
	})
	if err != nil {
		return done, err
	}
	return done, syncLocal(cfg, eventlog.StreamName, keystore.Stream)
}

// endAccess appends the events that end all grants, API keys and sessions of an
// owner, and reports whether the owner has ever signed in.
func endAccess(ctx context.Context, nc *nats.Conn, owner events.Owner) (registered bool, err error) {
	log, err := eventlog.Open(ctx, nc)
	if err != nil {
		return false, err
	}
	commands, err := command.NewExecutor(command.Config{
		Log: log, Loader: command.NoReadModel{}, Source: "/ledger", NewID: NewID, CachedOwners: 1, Timeout: forgetTimeout,
	})
	if err != nil {
		return false, err
	}
	standing, err := commands.Standing(ctx, owner)
	if err != nil {
		return false, err
	}
	return standing.Registered, commands.EndAllAccess(ctx, owner)
}
