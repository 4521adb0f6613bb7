package main

import (
	"bytes"
	"io"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/memory-ledger/ledger/infra/datadir"
)

// Who says nothing, or nonsense, is told how, on standard error, and gets the exit
// code of wrong usage; who asks is answered on standard output.
func TestUsage(t *testing.T) {
	for args, want := range map[string]struct {
		code     int
		out, err string // in what is printed
	}{
		"":                 {exitUsage, "", "Usage:"},
		"nonsense":         {exitUsage, "", ""},
		"verify --no-such": {exitUsage, "", ""},
		"help":             {0, "Usage:", ""},
		"help tail":        {0, "--follow", ""},
		"help nope":        {exitUsage, "", ""},
		"help tail nope":   {exitUsage, "", ""},
		"--help":           {0, "Usage:", ""},
		"verify --help":    {0, "Usage:", ""},
		"--version":        {0, "ledger (devel)", ""},
	} {
		var out, err bytes.Buffer
		root := newRoot()
		root.SetOut(&out)
		root.SetErr(&err)
		root.SetArgs(strings.Fields(args))
		_ = root.ExecuteContext(t.Context())
		if !strings.Contains(out.String(), want.out) || (want.out == "") != (out.Len() == 0) || !strings.Contains(err.String(), want.err) {
			t.Errorf("%q: out %q, err %q", args, out.String(), err.String())
		}
		if code := run(strings.Fields(args), &out); code != want.code {
			t.Errorf("%q: exit code %d, want %d", args, code, want.code)
		}
	}
}

// A flag without a value is wrong usage, and no flag that was left out; so is one
// that is given twice.
func TestFlagsHaveAValue(t *testing.T) {
	onlyEnviron(t, map[string]string{"LEDGER_DATA_DIR": t.TempDir(), "NATS_URL": "nats://127.0.0.1:1"})
	file := filepath.Join(t.TempDir(), "receipt")
	for _, args := range []string{
		"verify-receipt --rpc= " + file, "verify-receipt --program= " + file, "verify-receipt --authority= " + file, "tail --owner=", "tail --type=", "verify --owner=", "verify --authority=", "rebuild --projection=", "backup --only= x",
		"tail --type=MemoryWritten --type=GrantMinted", "tail --type=MemoryWritten --type=", "verify --owner=x --owner=x",
	} {
		for _, given := range [][]string{strings.Fields(args), strings.Fields(strings.ReplaceAll(args, "=", " ="))} {
			for i := range given {
				given[i] = strings.TrimPrefix(given[i], "=") // one argument, then two
			}
			_, err := ledger(t.Context(), given...)
			if err == nil || !strings.Contains(err.Error(), "it must not be") {
				t.Errorf("%q: %v", given, err)
			}
			if code := run(given, io.Discard); code != exitUsage {
				t.Errorf("%q: exit code %d", given, code)
			}
		}
	}
}

// full is a disk that is.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// What could not be printed is no success.
func TestNothingPrinted(t *testing.T) {
	d, err := datadir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if err := d.WriteRun(datadir.Run{NATSURL: "nats://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	onlyEnviron(t, map[string]string{"LEDGER_DATA_DIR": d.Path()})
	for _, args := range []string{"env", "help", "--version", "tail --help"} {
		if code := run(strings.Fields(args), full{}); code != exitUsage {
			t.Errorf("%s: exit code %d", args, code)
		}
		var out bytes.Buffer
		if code := run(strings.Fields(args), &out); code != 0 || out.Len() == 0 {
			t.Errorf("%s: exit code %d, %s", args, code, &out)
		}
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{GoVersion: "go1.26"}
	want := func(text string) {
		t.Helper()
		if got := versionOf(info); got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
	want("(devel) go1.26")
	info.Main.Version = "v1.2.3"
	want("v1.2.3 go1.26")
	info.Settings = []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "false"}}
	want("v1.2.3 revision abc go1.26")
	info.Settings[1].Value = "true"
	want("v1.2.3 revision abc with changes go1.26")
}
