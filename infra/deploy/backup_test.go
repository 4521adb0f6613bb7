package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestALostDiskKeepsTheCopiesElsewhere: a machine without its copies, and perhaps with an
// empty log, does not delete the copies at the other place before it has made as many. From
// then on both places have the same ones. It is refused to keep none, and an unfinished copy is none.
func TestALostDiskKeepsTheCopiesElsewhere(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("one-machine/programs/backup")
	must(t, err)
	dir := t.TempDir()
	elsewhere := filepath.Join(dir, "elsewhere")
	for name, text := range map[string]string{
		"ledger": `mkdir -p "$2"/{log,keystore,admin} && touch "$2"/{log,keystore,admin}/stream.json`,
		"date":   `echo >>"$DIR/days" && echo "day-$(wc -l <"$DIR/days")"`,
		"rsync":  `case "$*" in *--delete*) rm -r "$DIR"/elsewhere/* ;; esac; cp -r "${@: -2:1}". "${@: -1}"`,
		"backup": strings.ReplaceAll(string(script), "/usr/local/bin/ledger", filepath.Join(dir, "ledger")),
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\n"+text+"\n"), 0o700))
	}
	backUp := func(state, keep string) (copies []string) {
		t.Helper()
		run := exec.Command(filepath.Join(dir, "backup"))
		run.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "DIR=" + dir, "STATE_DIRECTORY=" + filepath.Join(dir, state), "BACKUP_TO=" + elsewhere, "BACKUP_KEEP=" + keep}
		if out, err := run.CombinedOutput(); (err == nil) != (keep != "0") {
			t.Fatalf("%v: %s", err, out)
		}
		found, err := os.ReadDir(elsewhere)
		must(t, err)
		for _, f := range found {
			copies = append(copies, f.Name())
		}
		return copies
	}
	must(t, os.Mkdir(elsewhere, 0o700))
	unfinished := filepath.Join(dir, "disk", "copies", "day-0")
	must(t, exec.Command(filepath.Join(dir, "ledger"), "backup", unfinished).Run())
	must(t, os.Remove(filepath.Join(unfinished, "admin", "stream.json")))
	for _, c := range []struct {
		state, keep string
		want        []string
	}{
		{"disk", "2", []string{"day-1"}},
		{"disk", "2", []string{"day-1", "day-2"}},
		{"disk", "2", []string{"day-2", "day-3"}},
		{"another disk", "2", []string{"day-2", "day-3", "day-4"}},
		{"another disk", "2", []string{"day-4", "day-5"}},
		{"another disk", "0", []string{"day-4", "day-5"}},
	} {
		if got := backUp(c.state, c.keep); !slices.Equal(got, c.want) {
			t.Errorf("on the %s: %v, want %v", c.state, got, c.want)
		}
	}
}
