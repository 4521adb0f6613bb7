package npm_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/infra/npm"
)

// fake puts an npm on PATH that runs the script.
func fake(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "npm"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

func TestBothOutputsAtOnceReachTheLogWhole(t *testing.T) {
	fake(t, `
for i in $(seq 500); do echo out; done &
for i in $(seq 500); do echo err >&2; done
wait
[ -f "$PWD/here" ]`)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "here"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	if err := npm.Install(t.Context(), dir, &log); err != nil {
		t.Fatal(err)
	}
	if out, errs := strings.Count(log.String(), "out\n"), strings.Count(log.String(), "err\n"); out != 500 || errs != 500 || log.Len() != 4000 {
		t.Errorf("%d lines of one output, %d of the other, %d bytes", out, errs, log.Len())
	}
}

func TestTheReasonIsOneLine(t *testing.T) {
	for name, test := range map[string]struct{ script, want string }{
		"registry away": {"echo 'npm error code ENOTFOUND'; echo 'npm error request to r failed' >&2; echo 'npm error more' >&2; exit 1", "npm ci: exit status 1: request to r failed"},
		"code alone":    {"echo 'npm warn old'; echo 'npm error code EINTEGRITY'; exit 2", "npm ci: exit status 2: code EINTEGRITY"},
		"silent":        {"exit 3", "npm ci: exit status 3: "},
	} {
		t.Run(name, func(t *testing.T) {
			fake(t, test.script)
			if err := npm.Install(t.Context(), t.TempDir(), &bytes.Buffer{}); err == nil || err.Error() != test.want {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestWithoutNPM(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if err := npm.Install(t.Context(), t.TempDir(), &bytes.Buffer{}); !errors.Is(err, npm.ErrMissing) {
		t.Errorf("got %v, want %v", err, npm.ErrMissing)
	}
}
