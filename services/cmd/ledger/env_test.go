package main

import (
	"testing"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/services/config"
)

// How the log is read goes with where it is: what a local run says holds for
// its server, and what the environment says wins.
func TestHowTheLogIsRead(t *testing.T) {
	for name, test := range map[string]struct {
		run  *datadir.Run
		env  map[string]string
		want string
	}{
		"a cluster":                       {nil, map[string]string{"NATS_URL": "nats://cluster"}, ""},
		"a cluster that permits it":       {nil, map[string]string{"NATS_URL": "nats://cluster", "LOG_READ": "consumer"}, "consumer"},
		"a local run":                     {&datadir.Run{NATSURL: "nats://own", LogRead: config.LogReadConsumer}, nil, "consumer"},
		"a local run, overridden":         {&datadir.Run{NATSURL: "nats://own", LogRead: config.LogReadConsumer}, map[string]string{"LOG_READ": "direct"}, "direct"},
		"a local run on another's log":    {&datadir.Run{NATSURL: "nats://cluster"}, nil, ""},
		"a cluster beside some local run": {&datadir.Run{NATSURL: "nats://own", LogRead: config.LogReadConsumer}, map[string]string{"NATS_URL": "nats://cluster"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("LEDGER_DATA_DIR", dir)
			for _, name := range []string{"NATS_URL", "LOG_READ"} {
				t.Setenv(name, test.env[name])
			}
			if test.run != nil {
				d, err := datadir.Open(dir)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = d.Close() }()
				if err := d.WriteRun(*test.run); err != nil {
					t.Fatal(err)
				}
			}
			cfg, err := loadConfig()
			if err != nil || cfg.LogRead != test.want {
				t.Errorf("%q, %v; want %q", cfg.LogRead, err, test.want)
			}
		})
	}
}
