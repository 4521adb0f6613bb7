package main

import (
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
		must(t, err)
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
	must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	must(t, d.WriteRun(run))
}
