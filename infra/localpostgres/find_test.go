package localpostgres

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func fake(t *testing.T, version string, programs ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	fakeIn(t, dir, version, programs...)
	return dir
}

func fakeIn(t *testing.T, dir, version string, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho 'postgres (PostgreSQL) "+version+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheFirstThatRunsIsUsed(t *testing.T) {
	t.Parallel()
	old := fake(t, "12.4", "postgres", "initdb", "pg_ctl")
	alone := fake(t, "17.1", "postgres")
	first := fake(t, "15.2 (Some 15.2-1)", "postgres", "initdb", "pg_ctl")
	second := fake(t, "18beta1", "postgres", "initdb", "pg_ctl")
	link := t.TempDir()
	if err := os.Symlink(filepath.Join(first, "postgres"), filepath.Join(link, "postgres")); err != nil {
		t.Fatal(err)
	}
	found, err := find([]string{"", "relative", old, alone, link, second}, nil)
	if want := (installation{bin: first, major: 15}); err != nil || found != want {
		t.Fatalf("got %v, %v; want %v", found, err, want)
	}
}

func TestNotFoundSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for _, dirs := range [][]string{nil, {fake(t, "12.4", "postgres", "initdb", "pg_ctl")}} {
		_, err := find(dirs, nil)
		if !errors.Is(err, ErrNotFound) {
			t.Fatalf("got %v, want ErrNotFound", err)
		}
		for _, want := range []string{"apt-get install postgresql", "DATABASE_URL"} {
			if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("message %q: want one line with %q", err, want)
			}
		}
	}
}

func TestClosedProgramsDoNotCount(t *testing.T) {
	t.Parallel()
	dir := fake(t, "15.2", "postgres", "initdb", "pg_ctl")
	if err := os.Chmod(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := find([]string{dir}, &account{uid: 12345, gid: 12345, name: "someone"})
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "someone") {
		t.Errorf("got %v", err)
	}
}

func TestNewestFirst(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "99") // a number that is not the version
	for _, v := range []string{"9", "15", "16", "100"} {
		if err := os.MkdirAll(filepath.Join(base, v, "bin"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, dir := range newestFirst(filepath.Join(base, "*", "bin")) {
		got = append(got, filepath.Base(filepath.Dir(dir)))
	}
	if want := []string{"100", "16", "15", "9"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
