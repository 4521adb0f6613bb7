package datadir_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/testkit"
)

var must = testkit.Must

// holderEnv makes this test program hold a folder until its input ends. It plays the
// other instance, which a test can kill.
const holderEnv = "DATADIR_TEST_HOLD"

func TestMain(m *testing.M) {
	if path := os.Getenv(holderEnv); path != "" {
		os.Exit(hold(path))
	}
	os.Exit(m.Run())
}

func hold(path string) int {
	d, err := datadir.Open(path)
	if err == nil {
		err = d.WriteRun(datadir.Run{NATSURL: "nats://held"})
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("held")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	if err := d.Close(); err != nil {
		return 1
	}
	return 0
}

func startHolder(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderEnv+"="+path)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill() // has ended already if the test killed it
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "held\n" {
		t.Fatalf("holder said %q, %v", line, err)
	}
	return cmd
}

func open(t *testing.T, path string) *datadir.Dir {
	t.Helper()
	d, err := datadir.Open(path)
	must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestOpenCreatesAPrivateFolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "deep", "data")
	d := open(t, path)
	wantMode(t, d.Path(), 0o700)
	sub, err := d.Sub("nats")
	must(t, err)
	wantMode(t, sub, 0o700)
}

func TestSecondInstanceIsRefusedByName(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	holder := startHolder(t, path)
	_, err := datadir.Open(path)
	if !errors.Is(err, datadir.ErrLocked) {
		t.Fatalf("second Open: %v, want ErrLocked", err)
	}
	for _, want := range []string{path, strconv.Itoa(holder.Process.Pid)} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("message %q does not name %q", err, want)
		}
	}
}

func TestKilledRunLeavesNothingInTheWay(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	holder := startHolder(t, path)
	if r, err := datadir.LoadRun(path); err != nil || r.PID != holder.Process.Pid || r.NATSURL != "nats://held" {
		t.Fatalf("while it runs: %+v, %v", r, err)
	}
	must(t, holder.Process.Kill())
	_ = holder.Wait()
	if _, err := os.Stat(filepath.Join(path, "run.json")); err != nil {
		t.Fatalf("the note should be left over: %v", err)
	}
	if _, err := datadir.LoadRun(path); !errors.Is(err, datadir.ErrNotRunning) {
		t.Fatalf("stale note: %v, want ErrNotRunning", err)
	}
	open(t, path)
	if _, err := os.Stat(filepath.Join(path, "run.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stale note survived Open: %v", err)
	}
}

// Commands that look for the run take the lock for an instant. A run that
// starts at that instant must not be refused.
func TestLookingNeverRefusesAStart(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	open(t, path).Close()
	looks, stop := context.WithCancel(t.Context())
	var looking sync.WaitGroup
	for range 4 {
		looking.Go(func() {
			for looks.Err() == nil {
				_, _ = datadir.LoadRun(path)
			}
		})
	}
	for range 50 {
		d, err := datadir.Open(path)
		if err != nil {
			t.Error(err)
			break
		}
		_ = d.Close()
	}
	stop()
	looking.Wait()
}

func TestSecretIsMadeOnceAndKept(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := open(t, path)
	first, err := d.Secret("master_key", 32)
	must(t, err)
	if len(first) != 32 || bytes.Equal(first, make([]byte, 32)) {
		t.Fatalf("secret is %d bytes", len(first))
	}
	wantMode(t, filepath.Join(path, "secrets", "master_key"), 0o600)
	other, err := d.Secret("jwt", 32)
	if err != nil || bytes.Equal(other, first) {
		t.Fatalf("two names share a secret, %v", err)
	}
	must(t, d.Close())
	again, err := open(t, path).Secret("master_key", 32)
	if err != nil || !bytes.Equal(again, first) {
		t.Fatalf("not kept: %v", err)
	}
	beside, err := datadir.LoadSecret(path, "master_key", 32)
	if err != nil || !bytes.Equal(beside, first) {
		t.Fatalf("not readable beside the run: %v", err)
	}
}

func TestDamagedSecretIsNeverReplaced(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"empty": "", "short": "AAAA\n", "not-base64": "ceci n'est pas une clef\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := t.TempDir()
			d := open(t, path)
			file := filepath.Join(path, "secrets", "master_key")
			must(t, os.WriteFile(file, []byte(content), 0o600))
			_, err := d.Secret("master_key", 32)
			if err == nil || !strings.Contains(err.Error(), file) {
				t.Fatalf("error %v should name the file", err)
			}
			if content != "" && strings.Contains(err.Error(), strings.TrimSpace(content)) {
				t.Errorf("error %q shows the secret", err)
			}
			if got, _ := os.ReadFile(file); string(got) != content {
				t.Error("the file was replaced")
			}
		})
	}
}

func TestOpenRemovesWhatACrashLeftHalfWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a[b*") // a name, and no pattern
	must(t, open(t, path).Close())
	left := filepath.Join(path, "secrets", ".writing-123")
	must(t, os.WriteFile(left, []byte("half"), 0o600))
	open(t, path)
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left over: %v", err)
	}
}

// TestADeviceIsNotReplaced: a rename would put a file in place of /dev/null.
func TestADeviceIsNotReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(path, 0o600))
	if err := datadir.WriteFile(path, []byte("x"), 0o600); err == nil {
		t.Error("no error")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		t.Errorf("what is there now: %v, %v", info, err)
	}
}

func wantMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	if got := info.Mode().Perm(); got != want {
		t.Errorf("%s has mode %o, want %o", path, got, want)
	}
}
