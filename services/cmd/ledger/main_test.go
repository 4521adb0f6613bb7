package main

import (
	"bytes"
	"runtime/debug"
	"strings"
	"testing"
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
		if code := run(strings.Fields(args)); code != want.code {
			t.Errorf("%q: exit code %d, want %d", args, code, want.code)
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
