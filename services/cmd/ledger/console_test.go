package main

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/run/assembly"
)

// A full log file becomes the previous one: at most two files, with whole lines.
func TestLogFileIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "run.log")
	if err := os.WriteFile(path, []byte("of the run before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := openLogFile(path, 40)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"one, ten bytes or so\n", "two, ten bytes or so\n", "three\n", strings.Repeat("x", 50) + "\n"} {
		if _, err := file.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	now, errNow := os.ReadFile(path)
	before, errBefore := os.ReadFile(path + ".1")
	if err := errors.Join(errNow, errBefore); err != nil {
		t.Fatal(err)
	}
	if string(before) != "two, ten bytes or so\nthree\n" || string(now) != strings.Repeat("x", 50)+"\n" {
		t.Errorf("%q, before that %q", now, before)
	}
}

// TestLogFileThatIsGone: a log file that was deleted is made when it would be full.
func TestLogFileThatIsGone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "run.log")
	file, err := openLogFile(path, 10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write([]byte("one\n")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write([]byte("two and more\n")); err != nil {
		t.Error(err)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != "two and more\n" {
		t.Errorf("%q, %v", now, err)
	}
}

// A person sees the log's warnings below the output of the start. A repeated warning is
// shown once.
func TestWarningsAtATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	console := &console{out: &out, getenv: func(string) string { return "" }, program: "ledger"}
	log, err := console.Opened(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	log.Warn("it was early")
	if out.Len() > 0 {
		t.Errorf("before the start is over: %s", &out)
	}
	console.Up(assembly.Up{Core: "http://127.0.0.1:3001", Extension: "http://127.0.0.1:3002", Folder: "/data", Chain: "local"})
	start := out.Len()
	for range 3 {
		log.With("server", "x").Error("the database has ended", "err", errors.New("why"))
	}
	log.Info("nothing to see")
	if said := out.String(); !strings.HasSuffix(said[:start], " warn: it was early\n") || strings.Count(said[start:], "\n") != 1 || !strings.HasSuffix(said, " error: the database has ended: why\n") {
		t.Errorf("%s", said)
	}
	if !strings.Contains(out.String(), "\n  ledger verify          check all of it\n") {
		t.Errorf("what to do next:\n%s", out.String())
	}
	text, err := os.ReadFile(filepath.Join(console.folder, runLogName))
	if err != nil || strings.Count(string(text), "level="+slog.LevelError.String()) != 3 || strings.Count(string(text), "\n") != 5 {
		t.Errorf("%s, %v", text, err)
	}
}

// The help of a command names the variables that it reads, and no others.
func TestHelpNamesVariables(t *testing.T) {
	for command, want := range map[string][2]string{
		"core-api": {"CORE_ADDR", "EXTENSION_ADDR"}, "extension-api": {"EXTENSION_ADDR", "CORE_ADDR"}, "run": {"LOCAL_CHAIN", "OPS_ADDR"},
		"tail": {"NATS_URL", "MASTER_KEY"}, "verify-receipt": {"FILE", "Environment"},
	} {
		help, err := ledger(t.Context(), command, "--help")
		if err != nil || !strings.Contains(help, want[0]) || strings.Contains(help, "\n  "+want[1]) {
			t.Errorf("%s: %v\n%s", command, err, help)
		}
	}
}
