package deploy_test

import (
	"crypto/tls"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestSecretsWithoutOpenssl: if openssl is missing or fails, the script fails and leaves no
// file that a later run would keep: those begin with a letter.
func TestSecretsWithoutOpenssl(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs("secrets")
	must(t, err)
	bin := t.TempDir() // what the script uses, without openssl
	for _, name := range []string{"bash", "env", "mkdir", "chmod", "mv", "rm", "cat", "od", "tr", "paste", "sed", "hostname"} {
		if path, err := exec.LookPath(name); err == nil {
			must(t, os.Symlink(path, filepath.Join(bin, name)))
		}
	}
	for name, openssl := range map[string]string{"missing": "", "failing": "#!/bin/sh\nexit 1\n"} {
		if openssl != "" {
			must(t, os.WriteFile(filepath.Join(bin, "openssl"), []byte(openssl), 0o700))
		}
		dir := filepath.Join(t.TempDir(), "secrets")
		run := exec.Command(script, dir)
		run.Env = []string{"PATH=" + bin}
		if out, err := run.CombinedOutput(); err == nil {
			t.Errorf("%s: no error: %s", name, out)
		}
		kept, err := filepath.Glob(filepath.Join(dir, "[^.]*"))
		if err != nil || len(kept) > 0 {
			t.Errorf("%s: it left %v, %v", name, kept, err)
		}
		must(t, os.RemoveAll(filepath.Join(bin, "openssl")))
	}
}

// TestSecretsAreMadeAfterAStop: the script was killed before it named a file. Run again, it
// makes what is missing, keeps what is there, and leaves no unnamed secret. Its user is not
// root, and may not write to the files that it makes.
func TestSecretsAreMadeAfterAStop(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs("secrets")
	must(t, err)
	for _, at := range []string{"jwt_secret", "ca_certificate", "nats_certificate", "gateway_certificate"} {
		bin := t.TempDir()
		mv := "#!/bin/bash\nif [ \"$2\" = \"$AT\" ]; then kill -9 $PPID; exit 1; fi\nexec /bin/mv \"$@\"\n"
		must(t, os.WriteFile(filepath.Join(bin, "mv"), []byte(mv), 0o700))
		dir := filepath.Join(t.TempDir(), "secrets")
		run := func(at string) error {
			run := unprivileged(script, dir)
			run.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "AT="+at)
			return run.Run()
		}
		if run(at) == nil {
			t.Fatalf("%s: it was not stopped", at)
		}
		before := contents(t, dir)["nats_passwords"]
		if err := run(""); err != nil {
			t.Errorf("%s, again: %v", at, err)
			continue
		}
		if before == "" || before != contents(t, dir)["nats_passwords"] {
			t.Errorf("%s: it made new passwords", at)
		}
		if hidden, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(hidden) > 0 {
			t.Errorf("%s: it left %v, %v", at, hidden, err)
		}
		for _, name := range []string{"nats", "postgres", "gateway"} {
			if _, err := tls.LoadX509KeyPair(filepath.Join(dir, name+"_certificate"), filepath.Join(dir, name+"_key")); err != nil {
				t.Errorf("%s: %s: %v", at, name, err)
			}
		}
	}
}

// unprivileged returns a command without root's rights, with which it would write everywhere.
func unprivileged(command ...string) *exec.Cmd {
	if os.Geteuid() == 0 {
		command = append([]string{"setpriv", "--bounding-set=-all"}, command...)
	}
	return exec.Command(command[0], command[1:]...)
}
