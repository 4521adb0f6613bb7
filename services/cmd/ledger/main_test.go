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

// A command line without a command, or with a wrong one, gets an explanation on standard
// error and the exit code of wrong usage. Requested help is printed on standard output.
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

// A flag with an empty value is wrong usage, not a missing flag. So is a flag that is
// given twice.
func TestFlagsHaveAValue(t *testing.T) {
	onlyEnviron(t, map[string]string{"LEDGER_DATA_DIR": t.TempDir(), "NATS_URL": "nats://127.0.0.1:1"})
	file := filepath.Join(t.TempDir(), "receipt")
	for _, args := range []string{
		"verify-receipt --rpc= " + file, "verify-receipt --program= " + file, "verify-receipt --authority= " + file, "tail --owner=", "tail --type=", "verify --owner=", "verify --authority=", "rebuild --projection=", "backup --only= x",
		"tail --since=", "tail --type=MemoryWritten,", "tail --type=MemoryWritten --type=", "verify --owner=x --owner=x",
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

// An error about a command line is a sentence that names the wrong part, and suggests the
// likely meaning if there is one.
func TestWrongUsageIsSaid(t *testing.T) {
	onlyEnviron(t, map[string]string{"LEDGER_DATA_DIR": t.TempDir(), "NATS_URL": "nats://127.0.0.1:1"})
	for args, want := range map[string]string{
		"tial":                     "there is no command \"tial\": did you mean tail?; see `ledger --help`",
		"qqq":                      "there is no command \"qqq\"; see `ledger --help`",
		"help tial":                "there is no help on \"tial\": did you mean tail?",
		"verify-receipt":           "FILE is missing: ledger verify-receipt FILE [flags]; see `ledger verify-receipt --help`",
		"verify-receipt a b":       "\"b\" is too much: ledger verify-receipt takes FILE; see `ledger verify-receipt --help`",
		"backup":                   "DIR is missing: ledger backup DIR [flags]; see `ledger backup --help`",
		"tail x":                   "\"x\" is too much: ledger tail takes no arguments; see `ledger tail --help`",
		"tail --folow":             "ledger tail has no flag --folow: did you mean --follow?; see `ledger tail --help`",
		"tail -z":                  "ledger tail has no flag -z; see `ledger tail --help`",
		"tail --from x":            "--from: \"x\" is not a number from 0 up",
		"tail -n -3":               "--newest: \"-3\" is not a number from 0 up",
		"tail --follow=x":          "--follow: \"x\" is not true or false",
		"tail --owner":             "--owner needs a value: only this owner's events (base58 public key)",
		"tail --owner=":            "--owner: it must not be empty",
		"tail --type MemoryWriten": "--type: there is no event type \"MemoryWriten\": did you mean MemoryWritten?",
		"tail --since yesterday":   "--since: \"yesterday\" is neither a duration (90s, 15m, 24h) nor a time (2026-01-31, 2026-01-31T08:00:00Z)",
		"tail --since -1h":         "--since: -1h is in the future",
	} {
		if _, err := ledger(t.Context(), strings.Fields(args)...); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
}

// full is a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A failed print is a failure.
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
