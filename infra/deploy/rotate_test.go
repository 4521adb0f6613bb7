package deploy_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestARotationIsStoppedAtEveryStep: the script is killed before each change of a file and
// each command, or openssl fails, and run again. At no time does an API that runs lack a key
// that wraps a record, and at the end there is one key. Its user is not root, and the files
// are as the script `secrets` makes them: no user may write to them.
func TestARotationIsStoppedAtEveryStep(t *testing.T) {
	t.Parallel()
	for step, ended := 1, false; !ended; step++ {
		r := newRotation(t)
		out, err := r.run(step)
		if ended = err == nil; !ended {
			r.refuse([]string{"", "another\n"}[step%2])
			if out, err = r.run(0); err != nil {
				t.Fatalf("step %d, again: %v: %s", step, err, out)
			}
		}
		r.check()
		if t.Failed() || step > 30 {
			t.Fatalf("step %d: %s", step, out)
		}
	}
}

// rotation is a deployment of one API and a keystore, which only notes what happens.
type rotation struct {
	t            *testing.T
	dir, secrets string
}

const oldKey = "old key\n"

func newRotation(t *testing.T) *rotation {
	t.Helper()
	r := &rotation{t: t, dir: t.TempDir()}
	r.secrets = filepath.Join(r.dir, "secrets")
	must(t, os.Mkdir(r.secrets, 0o700))
	must(t, os.WriteFile(filepath.Join(r.secrets, "master_key"), []byte(oldKey), 0o444))
	must(t, os.WriteFile(filepath.Join(r.secrets, "master_key_previous"), nil, 0o444))
	must(t, os.WriteFile(filepath.Join(r.dir, "sync"), []byte("#!/bin/sh\n"), 0o700))
	// Each of these counts as a step, and kills the script at the one that is asked for, or fails.
	for name, does := range map[string]string{"mv": `exec /bin/mv "$@"`, "rm": `exec /bin/rm "$@"`, "openssl": `exec /usr/bin/openssl "$@"`,
		"restart": `echo "restart $(cat master_key)|$(cat master_key_previous)" >>../journal`,
		"rewrap":  `echo "rewrap $(cat master_key)|$(cat master_key_previous)" >>../journal`,
	} {
		// Builtins alone: starting a process takes longer than all that they do.
		script := `#!/bin/sh
at=0; if [ -e "$R/steps" ]; then read -r at <"$R/steps"; fi
at=$((at + 1)); echo "$at" >"$R/steps"
if [ "$at" = "$AT" ]; then case $0 in */openssl) ;; *) read -r pid <"$R/pid"; kill -9 "$pid" ;; esac; exit 1; fi
cd "$R/secrets"
` + does + "\n"
		must(t, os.WriteFile(filepath.Join(r.dir, name), []byte(script), 0o700))
	}
	return r
}

// run runs the script, and kills it at a step.
func (r *rotation) run(at int) ([]byte, error) {
	r.t.Helper()
	_ = os.Remove(filepath.Join(r.dir, "steps")) // there may be none
	script, err := filepath.Abs("rotate")
	must(r.t, err)
	run := unprivileged("bash", "-c", `echo $$ >"$R/pid"; exec "$0" "$@"`, script, r.secrets, "restart", "rewrap")
	run.Env = append(os.Environ(), "PATH="+r.dir+":"+os.Getenv("PATH"), "R="+r.dir, fmt.Sprintf("AT=%d", at))
	return run.CombinedOutput()
}

// refuse looks that another next key does not take the place of a key that may be in use.
func (r *rotation) refuse(other string) {
	was := contents(r.t, r.secrets)
	if previous := was["master_key_previous"]; previous == "" || previous == was["master_key"] {
		return
	}
	next := filepath.Join(r.secrets, "master_key_next")
	must(r.t, errors.Join(os.Remove(next), os.WriteFile(next, []byte(other), 0o444)))
	if out, err := r.run(0); err == nil || contents(r.t, r.secrets)["master_key_previous"] != was["master_key_previous"] {
		r.t.Errorf("%q is the next key: %v: %s", other, err, out)
	}
	must(r.t, errors.Join(os.Remove(next), os.WriteFile(next, []byte(was["master_key_next"]), 0o444)))
}

// check reads what happened.
func (r *rotation) check() {
	r.t.Helper()
	journal, err := os.ReadFile(filepath.Join(r.dir, "journal"))
	must(r.t, err)
	old := strings.TrimSpace(oldKey)
	running := []string{old, ""} // the keys of the API: the first one wraps
	wrapped := map[string]bool{old: true}
	for line := range strings.Lines(string(journal)) {
		what, keys, _ := strings.Cut(strings.TrimSpace(line), " ")
		has := strings.Split(keys, "|")
		switch what {
		case "restart": // for a moment, APIs with the keys of before and of now run together
			for key := range wrapped {
				if !slices.Contains(has, key) {
					r.t.Errorf("an API does not know a key that wraps records:\n%s", journal)
				}
			}
			if !slices.Contains(has, running[0]) || !slices.Contains(running, has[0]) {
				r.t.Errorf("two APIs do not know each other's keys:\n%s", journal)
			}
			running = has
			wrapped[has[0]] = true
		case "rewrap":
			if running[0] != has[0] || has[1] != old {
				r.t.Errorf("the rewrap has other keys than the APIs:\n%s", journal)
			}
			wrapped = map[string]bool{has[0]: true}
		}
	}
	has := contents(r.t, r.secrets)
	fresh := strings.TrimSpace(has["master_key"])
	kept, err := filepath.Glob(filepath.Join(r.secrets, "master_key_until_*"))
	if err != nil || len(kept) == 0 || fresh == old || len(fresh) != 44 || has["master_key_previous"] != "" || running[0] != fresh || running[1] != "" || len(wrapped) != 1 || !wrapped[fresh] {
		r.t.Errorf("at the end %q, %q, %v, running %v, %v", fresh, has["master_key_previous"], kept, running, err)
		return
	}
	if has[filepath.Base(kept[0])] != oldKey {
		r.t.Errorf("the old key was not kept")
	}
	if info, err := os.Stat(filepath.Join(r.secrets, "master_key")); err != nil || info.Mode() != 0o444 {
		r.t.Errorf("services may not read the new key: %v, %v", info.Mode(), err)
	}
	if _, left := has["master_key_next"]; left {
		r.t.Error("it left the next key")
	}
}
