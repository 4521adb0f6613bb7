package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAnAlertIsMailedIfItsWebhookFails: what failed may have taken the webhook with it. Nor
// does a refused mail look like one that was sent. Servers refuse mail with bare line feeds.
func TestAnAlertIsMailedIfItsWebhookFails(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	for name, does := range map[string]string{
		"journalctl": `echo the disk is 90 % full`,
		"curl":       `if [[ $* = *--crlf* ]]; then sed 's/$/\r/'; else cat; fi >>"$R/sent"; [[ $* != *"$FAILS"* ]]`,
	} {
		must(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/bash\n"+does+"\n"), 0o700))
	}
	for _, fails := range []string{"application/json", "--mail-rcpt"} {
		sent := t.TempDir()
		run := exec.Command("one-machine/programs/alert", "ledger-check")
		run.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "R="+sent, "FAILS="+fails,
			"ALERT_WEBHOOK=https://hook", "ALERT_SMTP=smtp://mail", "ALERT_FROM=a@a", "ALERT_TO=b@b")
		out, err := run.CombinedOutput()
		text, _ := os.ReadFile(filepath.Join(sent, "sent"))
		if err == nil || !strings.Contains(string(text), `{"text":"`) || !strings.Contains(string(text), "To: b@b\r\n") {
			t.Errorf("%s fails: %v, sent %q: %s", fails, err, text, out)
		}
	}
}
