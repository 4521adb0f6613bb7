package assembly

import (
	"cmp"
	"context"
	"encoding/base64"
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
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/projections/rebuild"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/keystore/device"
	"github.com/memory-ledger/ledger/services/run/adminlog"
	"github.com/memory-ledger/ledger/services/run/backup"
	"github.com/memory-ledger/ledger/services/run/config"
)

// Rebuild rebuilds the read models while the services run. It fills in o.Pool and
// o.Log.
func Rebuild(ctx context.Context, cfg config.Config, o rebuild.Config) (done rebuild.Result, err error) {
	err = asRecordedAdmin(ctx, cfg, "rebuild", map[string]string{"force": strconv.FormatBool(o.Force)}, func(ctx context.Context, nc *nats.Conn) error {
		log, err := eventlog.Open(ctx, nc)
		if err != nil {
			return err
		}
		if o.Pool, err = schema.OpenPool(ctx, cfg.DatabaseURL, schema.Live, 2); err != nil {
			return err
		}
		defer o.Pool.Close()
		o.Log = partReader(cfg, log)
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
func CheckKey(ctx context.Context, cfg config.Config, setting config.MasterKeySetting, dir string, progress func(keystore.Checked)) (id string, done keystore.Checked, err error) {
	key, err := openMaster(ctx, setting)
	if err != nil {
		return "", done, err
	}
	check := func(ctx context.Context, nc *nats.Conn) error {
		keys, err := openKeysWith(ctx, cfg, nc, []keystore.Master{key})
		if err != nil {
			return err
		}
		done, err = keys.CheckAll(ctx, progress)
		return err
	}
	if dir == "" {
		err = asAdmin(ctx, cfg, "check-key", check)
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
func Forget(ctx context.Context, cfg config.Config, owner events.Owner) (existed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
	defer cancel()
	err = asRecordedAdmin(ctx, cfg, "forget", map[string]string{"owner": string(owner)}, func(ctx context.Context, nc *nats.Conn) error {
		js, err := jetstream.New(nc)
		if err != nil {
			return err
		}
		registered, err := endAccess(ctx, nc, owner)
		if err == nil {
			existed, err = keystore.Forget(ctx, js, owner, registered)
		}
		return err
	})
	if err != nil {
		return existed, err
	}
	return existed, syncLocal(cfg, eventlog.StreamName, keystore.Stream)
}

// endAccess appends the events that end all grants, API keys and sessions of an
// owner, and reports whether the owner has ever signed in.
func endAccess(ctx context.Context, nc *nats.Conn, owner events.Owner) (registered bool, err error) {
	log, err := eventlog.Open(ctx, nc)
	if err != nil {
		return false, err
	}
	commands := command.NewExecutor(command.Config{
		Log: log, Loader: command.NoReadModel{}, Source: "/ledger", NewID: NewID, CachedOwners: 1, Timeout: forgetTimeout,
	})
	standing, err := commands.Standing(ctx, owner)
	if err != nil {
		return false, err
	}
	return standing.Registered, commands.EndAllAccess(ctx, owner)
}

// asRecordedAdmin is asAdmin for an act that the admin log records. Connection and records
// outlast the act, also when ctx ends.
func asRecordedAdmin(ctx context.Context, cfg config.Config, act string, about map[string]string, work func(context.Context, *nats.Conn) error) error {
	return asAdmin(ctx, cfg, act, func(ctx context.Context, nc *nats.Conn) error {
		return recorded(ctx, cfg, nc, act, about, func() error { return work(ctx, nc) })
	})
}

// recorded does an act between two records of it. An act that can't be recorded is not
// begun.
func recorded(ctx context.Context, cfg config.Config, nc *nats.Conn, act string, about map[string]string, do func() error) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	by := ""
	if user := userOf(cfg.NATSURL); user != nil {
		if _, is := user.Password(); is { // a user without a password is a token, which is a secret
			by = user.Username()
		}
	}
	var end func(context.Context, error) error
	if _, err = js.Stream(ctx, adminlog.Stream); errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = natsconf.Create(ctx, js, adminlog.Stream, cmp.Or(cfg.NATSReplicas, natsconf.Replicas(nc)))
	}
	if err == nil {
		end, err = adminlog.Begin(ctx, js, adminlog.Record{Act: act, About: about, By: adminlog.Me(by)})
	}
	if err == nil {
		err = syncLocal(cfg, adminlog.Stream)
	}
	if err != nil {
		return fmt.Errorf("%s is not begun, because it can't be recorded: %w", act, err)
	}
	err = do()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if unrecorded := end(ending, err); unrecorded != nil {
		return errors.Join(err, fmt.Errorf("%s has ended, but the admin log does not say how: %w", act, unrecorded))
	}
	return errors.Join(err, syncLocal(cfg, adminlog.Stream))
}

// AdminLog calls each with the records of operators' acts from a sequence on.
func AdminLog(ctx context.Context, cfg config.Config, from uint64, each func(adminlog.Entry) error) error {
	var refused refusals
	nc, err := Dial(cfg)(nats.Name("memory-ledger tail"), refused.option(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return fmt.Errorf("connect to the log's server: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	err = refused.during(ctx, func(ctx context.Context) error { return adminlog.Read(ctx, js, from, each) })
	if errors.Is(err, jetstream.ErrStreamNotFound) { // no act yet
		return nil
	}
	return err
}

// masterKeyName is the name of the master key in the secrets of a data folder.
const masterKeyName = "master-key"

// fillMasterKey fills in the generated master key of the data folder if the environment
// sets none.
func fillMasterKey(cfg *config.Config) error {
	if cfg.MasterKey != "" {
		return nil
	}
	key, err := datadir.LoadSecret(cfg.DataDir, masterKeyName, keystore.KeySize)
	if err != nil {
		return err
	}
	cfg.MasterKey = base64.StdEncoding.EncodeToString(key)
	return nil
}

// Rewrap gives every data key a new wrapping under the first master key.
func Rewrap(ctx context.Context, cfg config.Config, progress func(keystore.Rewrapped)) (done keystore.Rewrapped, err error) {
	masters, err := openMasters(ctx, cfg)
	if err != nil {
		return done, err
	}
	about := map[string]string{"to": masters[0].ID()}
	err = asRecordedAdmin(ctx, cfg, "rewrap", about, func(ctx context.Context, nc *nats.Conn) error {
		keys, err := openKeysWith(ctx, cfg, nc, masters)
		if err != nil {
			return err
		}
		done, err = keys.Rotate(ctx, progress)
		return err
	})
	if err == nil { // the previous key may be destroyed now
		err = syncLocal(cfg, keystore.Stream)
	}
	return done, err
}

// openMasters opens the configured master keys: one in a device has to answer once.
func openMasters(ctx context.Context, cfg config.Config) (masters []keystore.Master, err error) {
	settings, err := cfg.MasterKeys()
	if err != nil {
		return nil, err
	}
	for _, setting := range settings {
		master, err := openMaster(ctx, setting)
		if err != nil {
			return nil, err
		}
		masters = append(masters, master)
	}
	return masters, nil
}

func openMaster(ctx context.Context, setting config.MasterKeySetting) (keystore.Master, error) {
	if setting.Socket == "" {
		return setting.Key, nil
	}
	return device.Open(ctx, setting.Socket)
}
