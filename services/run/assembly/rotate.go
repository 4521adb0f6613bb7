package assembly

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/localnats"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/run/config"
)

// The master keys in the secrets of a data folder. There is a next one from the beginning
// of a rotation to its end.
const (
	masterKeyName     = "master-key"
	nextMasterKeyName = "master-key-next"
)

// fillMasterKeys fills in the generated master keys of the data folder if the environment
// sets none. After a rotation that was interrupted, data keys need either of two.
func fillMasterKeys(cfg *config.Config) error {
	if cfg.MasterKey != "" {
		return nil
	}
	key, err := datadir.LoadSecret(cfg.DataDir, masterKeyName, keystore.KeySize)
	if err != nil {
		return err
	}
	cfg.MasterKey = base64.StdEncoding.EncodeToString(key)
	next, err := datadir.LoadSecret(cfg.DataDir, nextMasterKeyName, keystore.KeySize)
	if errors.Is(err, datadir.ErrNoSecret) || cfg.MasterKeyPrevious != "" {
		return nil
	}
	cfg.MasterKeyPrevious = base64.StdEncoding.EncodeToString(next)
	return err
}

// Rewrap gives every data key a new wrapping under the first master key.
func Rewrap(ctx context.Context, cfg config.Config, progress func(done keystore.Rewrapped, total uint64)) (keystore.Rewrapped, error) {
	return rewrap(ctx, cfg, Dial(cfg), progress)
}

func rewrap(ctx context.Context, cfg config.Config, connect Connector, progress func(done keystore.Rewrapped, total uint64)) (done keystore.Rewrapped, err error) {
	masters, err := mastersOf(ctx, cfg)
	if err != nil {
		return done, err
	}
	about := map[string]string{"to": masters[0].ID()}
	err = asRecordedAdmin(ctx, cfg, connect, "rewrap", about, func(ctx context.Context, nc *nats.Conn) error {
		keys, err := openKeysWith(ctx, cfg, nc, masters)
		if err != nil {
			return err
		}
		total, err := keys.Count(ctx)
		if err != nil {
			return err
		}
		js, err := jetstream.New(nc)
		if err != nil {
			return err
		}
		stream, err := js.Stream(ctx, keystore.Stream)
		if err != nil {
			return err
		}
		done, err = keys.Rotate(ctx, stream, func(done keystore.Rewrapped) { progress(done, max(total, done.Entries)) })
		return err
	})
	if err == nil { // the previous key may be destroyed now
		err = syncLocal(cfg, keystore.Stream)
	}
	return done, err
}

// RotateLocal gives the data folder of a stopped local run a new master key, and returns
// the name under which its secrets keep the old one. A crash leaves a folder that a local
// run works with; RotateLocal goes on with the same new key.
func RotateLocal(ctx context.Context, cfg config.Config, progress func(done keystore.Rewrapped, total uint64)) (done keystore.Rewrapped, kept string, err error) {
	// Before Open, which would make the folder.
	old, err := datadir.LoadSecret(cfg.DataDir, masterKeyName, keystore.KeySize)
	if err != nil {
		return done, "", err
	}
	folder, err := datadir.Open(cfg.DataDir)
	if err != nil {
		return done, "", err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	next, err := folder.Secret(nextMasterKeyName, keystore.KeySize)
	if err != nil {
		return done, "", err
	}
	store, err := folder.Sub(natsFolder)
	if err != nil {
		return done, "", err
	}
	server, err := localnats.Start(ctx, localnats.Config{Dir: store, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return done, "", err
	}
	defer func() { err = errors.Join(err, server.Stop(context.WithoutCancel(ctx))) }()
	cfg.MasterKey, cfg.MasterKeyPrevious = base64.StdEncoding.EncodeToString(next), base64.StdEncoding.EncodeToString(old)
	connect := func(o ...nats.Option) (*nats.Conn, error) { return server.Connect(o...) }
	if done, err = rewrap(ctx, cfg, connect, progress); err != nil {
		return done, "", err
	}
	kept = fmt.Sprintf("%s-%s", masterKeyName, keystore.MasterKey(old).ID())
	return done, kept, folder.Replace(masterKeyName, nextMasterKeyName, kept)
}
