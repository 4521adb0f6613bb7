package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/infra/testkit"
)

var must = testkit.Must

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
		"--help":           {0, "Usage:", ""},
		"verify --help":    {0, "Usage:", ""},
		"--version":        {0, "ledger " + released + " ", ""},
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
