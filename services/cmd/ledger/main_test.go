package main

import (
	"bytes"
	"strings"
	"testing"
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
