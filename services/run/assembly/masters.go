package assembly

import (
	"context"
	"log/slog"

	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/keystore/device"
	"github.com/memory-ledger/ledger/services/run/config"
)

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

// waitingForDevice waits for the device of the master key.
func waitingForDevice(logger *slog.Logger) waiting {
	return waiting{what: "the device of the master key", logger: logger, because: func(err error) reason { return reason{why: err} }}
}
