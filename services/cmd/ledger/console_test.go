package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A full log file becomes the previous one: at most two files, with whole lines.
func TestLogFileIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "run.log")
	must(t, os.WriteFile(path, []byte("of the run before\n"), 0o600))
	file, err := openLogFile(path, 40)
	must(t, err)
	for _, line := range []string{"one, ten bytes or so\n", "two, ten bytes or so\n", "three\n", strings.Repeat("x", 50) + "\n"} {
		if _, err := file.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	now, errNow := os.ReadFile(path)
	before, errBefore := os.ReadFile(path + ".1")
	must(t, errors.Join(errNow, errBefore))
	if string(before) != "two, ten bytes or so\nthree\n" || string(now) != strings.Repeat("x", 50)+"\n" {
		t.Errorf("%q, before that %q", now, before)
	}
}
