package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/infra/datadir"
)

// A shell that evaluates the output of env passes the values to its commands unchanged,
// even if the data folder has an odd name.
func TestEnvIsReadyForAShell(t *testing.T) {
	const (
		odd     = "postgresql://ledger@/ledger?host=%2Fa%20b%2Bc%20'd'%20$HOME&port=5432"
		short   = "postgresql://ledger@/ledger?host=%2Ftmp%2Frun"
		another = "postgres://u:p@127.0.0.1:5433/x?sslmode=disable&application_name=y"
	)
	for name, test := range map[string]struct {
		url, port string
		want      string // in the shell
	}{
		"an odd folder":           {odd, "", strings.TrimSuffix(odd, "&port=5432")},
		"a local run":             {short + "&port=5432", "", short},
		"a shell of another port": {short + "&port=5432", "5433", short + "&port=5432"},
		"a database elsewhere":    {another, "", another},
	} {
		dir := filepath.Join(t.TempDir(), `a b+c 'd' $HOME`)
		noteRun(t, dir, datadir.Run{NATSURL: "nats://127.0.0.1:1", DatabaseURL: test.url})
		onlyEnviron(t, map[string]string{"LEDGER_DATA_DIR": dir, "PATH": "/usr/bin:/bin", "PGPORT": test.port})
		printed, err := ledger(t.Context(), "env")
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", `eval "$1" && exec sh -c 'printf "%s %s" "$NATS_URL" "$DATABASE_URL"'`, "sh", printed).CombinedOutput()
		if want := "nats://127.0.0.1:1 " + test.want; err != nil || string(out) != want {
			t.Errorf("%s: %s, %v, of %s; want %s", name, out, err, printed, want)
		}
		for line := range strings.Lines(printed) {
			if !strings.HasPrefix(line, "export ") {
				t.Errorf("%s: not exported: %s", name, line)
			}
		}
	}
}

// noteRun makes a data folder that looks as if a local run were using it.
func noteRun(t *testing.T, dir string, run datadir.Run) {
	t.Helper()
	d, err := datadir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	if err := d.WriteRun(run); err != nil {
		t.Fatal(err)
	}
}

// The output of env is for other programs. In a shell that evaluated it, the commands of
// ledger still find the local run by its folder, with all rights, even if the run's
// addresses changed since. Values that the user set take precedence.
func TestAShellThatHasTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	note := datadir.Run{NATSURL: "nats://ledger:all@127.0.0.1:1", NATSReadURL: "nats://auditor:read@127.0.0.1:1", DatabaseURL: "postgres://old/x", SolanaRPCURL: "http://old"}
	d, err := datadir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	write := func() {
		t.Helper()
		if err := d.WriteRun(note); err != nil {
			t.Fatal(err)
		}
	}
	write()
	onlyEnviron(t, map[string]string{"LEDGER_DATA_DIR": dir})
	printed, err := ledger(t.Context(), "env")
	if err != nil || strings.Contains(printed, "ledger:all") {
		t.Fatalf("%s, %v", printed, err)
	}
	for line := range strings.Lines(printed) {
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		t.Setenv(name, strings.Trim(value, "'"))
	}
	if os.Getenv("NATS_URL") != note.NATSReadURL {
		t.Fatalf("NATS_URL is %s", os.Getenv("NATS_URL"))
	}
	loads := func(nats, database, chain string) {
		t.Helper()
		if cfg, _, err := loadBeside(); err != nil || cfg.NATSURL != nats || cfg.DatabaseURL != database || cfg.SolanaRPCURL != chain {
			t.Errorf("%s, %s, %s, %v; want %s, %s, %s", cfg.NATSURL, cfg.DatabaseURL, cfg.SolanaRPCURL, err, nats, database, chain)
		}
	}
	loads(note.NATSURL, "postgres://old/x", "http://old")
	note.NATSURL, note.DatabaseURL, note.SolanaRPCURL = "nats://ledger:all@127.0.0.1:2", "postgres://new/x", "http://new"
	write()
	loads(note.NATSURL, "postgres://new/x", "http://new")
	t.Setenv("NATS_URL", "nats://cluster")
	loads("nats://cluster", "", "") // the local run's read models and chain are of another log
	t.Setenv("NATS_URL", "nats://auditor:read@127.0.0.1:1")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	loads("", "", "")
	for _, command := range []string{"env", "tail", "verify", "rewrap", "rebuild", "backup x", "forget --yes 11111111111111111111111111111112"} {
		if _, err := ledger(t.Context(), strings.Fields(command)...); err == nil || !strings.Contains(err.Error(), "not running: `make run`") {
			t.Errorf("%s beside a stopped run: %v", command, err)
		}
	}
}
