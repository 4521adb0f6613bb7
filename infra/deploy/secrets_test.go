package deploy_test

import (
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
