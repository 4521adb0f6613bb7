package main

import (
	"os/exec"
	"path/filepath"
	"strings"
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
		"a local run":                     {&datadir.Run{NATSURL: "nats://own", LogRead: config.LogReadFiles}, nil, "files"},
		"a local run, overridden":         {&datadir.Run{NATSURL: "nats://own", LogRead: config.LogReadFiles}, map[string]string{"LOG_READ": "direct"}, "direct"},
		"a local run on another's log":    {&datadir.Run{NATSURL: "nats://cluster"}, nil, ""},
		"a cluster beside some local run": {&datadir.Run{NATSURL: "nats://own", LogRead: config.LogReadFiles}, map[string]string{"NATS_URL": "nats://cluster"}, ""},
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

// A shell that evaluates what env prints has the values, whatever the name of the
// data folder does to them.
func TestEnvIsReadyForAShell(t *testing.T) {
	const (
		odd     = "postgresql://ledger@/ledger?host=%2Fa%20b%2Bc%20'd'%20$HOME&port=5432"
		short   = "postgresql://ledger@/ledger?host=%2Ftmp%2Frun"
		another = "postgres://u:p@127.0.0.1:5433/x?sslmode=disable&application_name=y"
	)
	for name, test := range map[string]struct {
		url, port string
		want      string // in the shell
		plain     bool   // also for who reads lines and knows nothing of quotes
	}{
		"an odd folder":           {odd, "", strings.TrimSuffix(odd, "&port=5432"), false},
		"a local run":             {short + "&port=5432", "", short, true},
		"a shell of another port": {short + "&port=5432", "5433", short + "&port=5432", false},
		"a database elsewhere":    {another, "", another, false},
	} {
		dir := filepath.Join(t.TempDir(), `a b+c 'd' $HOME`)
		d, err := datadir.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close() }()
		if err := d.WriteRun(datadir.Run{NATSURL: "nats://127.0.0.1:1", DatabaseURL: test.url}); err != nil {
			t.Fatal(err)
		}
		onlyEnviron(t, map[string]string{"LEDGER_DATA_DIR": dir, "PATH": "/usr/bin:/bin", "PGPORT": test.port})
		printed, err := ledger(t.Context(), "env")
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", `eval "$1" && printf '%s %s' "$NATS_URL" "$DATABASE_URL"`, "sh", printed).CombinedOutput()
		if want := "nats://127.0.0.1:1 " + test.want; err != nil || string(out) != want {
			t.Errorf("%s: %s, %v, of %s; want %s", name, out, err, printed, want)
		}
		if strings.Contains(printed, "DATABASE_URL="+test.want+"\n") != test.plain {
			t.Errorf("%s: %s", name, printed)
		}
	}
}
