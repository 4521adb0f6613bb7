package device_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/keystore/keystoretest/devicetest"
)

// TestOwnersOfSoftHSM is the same life with the real program and a real PKCS #11 library.
func TestOwnersOfSoftHSM(t *testing.T) {
	slow(t)
	t.Parallel()
	hsm, socket := newSoftHSM(t), devicetest.Socket(t)
	ownersOf(t, socket, func() func() { return hsm.start(t, socket) })

	ends := func(uri, want string) {
		t.Helper()
		if out, err := hsm.command(hsm.program, devicetest.Socket(t), uri).CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %s, %v", uri, out, err)
		}
	}
	ends(strings.Replace(hsm.uri, "object=master", "object=other", 1), "0 keys named other")
	ends(strings.Replace(hsm.uri, "token=ledger", "token=other", 1), "no token other")
	must(t, os.WriteFile(hsm.pin, []byte("wrong"), 0o600))
	ends(hsm.uri, "log in to the token")
}

// softHSM is a token of SoftHSM, and the program that uses it.
type softHSM struct{ program, uri, pin, config string }

func newSoftHSM(t *testing.T) *softHSM {
	t.Helper()
	for _, needed := range []string{"softhsm2-util", "gcc"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skip("needs " + needed + ": infra/install softhsm")
		}
	}
	libraries, _ := filepath.Glob("/usr/lib/*/softhsm/libsofthsm2.so")
	library := append(libraries, "/usr/lib/softhsm/libsofthsm2.so")[0]
	dir := t.TempDir()
	hsm := &softHSM{program: filepath.Join(dir, "ledger-pkcs11"), pin: filepath.Join(dir, "pin"), config: filepath.Join(dir, "softhsm2.conf")}
	hsm.uri = "pkcs11:token=ledger;object=master?module-path=" + library + "&pin-source=file:" + hsm.pin
	build := exec.Command("go", "build", "-o", hsm.program, "github.com/memory-ledger/ledger/services/cmd/ledger-pkcs11")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	tokens := filepath.Join(dir, "tokens")
	must(t, os.Mkdir(tokens, 0o700))
	must(t, os.WriteFile(hsm.config, []byte("directories.tokendir = "+tokens+"\n"), 0o600))
	must(t, os.WriteFile(hsm.pin, []byte("1234\n"), 0o600))
	if out, err := hsm.command("softhsm2-util", "--init-token", "--free", "--label", "ledger", "--pin", "1234", "--so-pin", "12345678").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return hsm
}

func (h *softHSM) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "SOFTHSM2_CONF="+h.config)
	return cmd
}

// start starts the program, which makes the key at the first start. stop kills it, as a
// crash of the device's library does.
func (h *softHSM) start(t *testing.T, socket string) (stop func()) {
	t.Helper()
	cmd := h.command(h.program, "--generate", socket, h.uri)
	said, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	ended := make(chan struct{})
	listening := make(chan bool)
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(said)
		listening <- lines.Scan() && strings.Contains(lines.Text(), "listening on")
		for lines.Scan() { // so that it never waits for a reader
		}
		_ = cmd.Wait() // it was killed
	}()
	stop = func() { _ = cmd.Process.Kill(); <-ended }
	t.Cleanup(stop)
	if !<-listening {
		t.Fatal("the program does not listen")
	}
	return stop
}
