package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// terminal is a person's screen and keyboard.
type terminal struct {
	keyboard *os.File
	mu       sync.Mutex
	seen     bytes.Buffer
	changed  chan struct{} // receives a value when something is shown
}

// atATerminal starts a command at a new terminal, in its own session.
func atATerminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	noErr(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	noErr(t, err)
	defer slave.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	noErr(t, cmd.Start())
	s := &terminal{keyboard: master, changed: make(chan struct{}, 1)}
	go func() { _, _ = io.Copy(s, master) }() // ends with the session
	return s
}

// Write implements io.Writer, for the output that is shown.
func (s *terminal) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return s.seen.Write(p)
}

func (s *terminal) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ReplaceAll(s.seen.String(), "\r\n", "\n")
}

func (s *terminal) await(t *testing.T, text string) {
	t.Helper()
	for late := time.After(startTimeout); !strings.Contains(s.text(), text); {
		select {
		case <-s.changed:
		case <-late:
			t.Fatalf("no %q in\n%s", text, s.text())
		}
	}
}

var freePort = regexp.MustCompile(`127\.0\.0\.1:\d{5}\b`)

// TestRunAtATerminal compares a session with a recorded one: the output of a start and of
// a stop. The log is in a file, and nothing else is printed.
func TestRunAtATerminal(t *testing.T) {
	slow(t)
	t.Parallel()
	want := must(os.ReadFile("testdata/terminal.txt"))
	dir := filepath.Join(pgtest.Folder(t), "data")
	root := must(filepath.Abs("../../.."))
	home := newcomersFolder(t, root, stacktest.Program(t, stacktest.Ledger))
	cmd := exec.Command("bin/ledger", "run")
	cmd.Dir = home
	// A path without programs, so without Node. PostgreSQL is found elsewhere.
	cmd.Env = append(os.Environ(), "LEDGER_DATA_DIR="+dir, "CORE_ADDR=127.0.0.1:0", "EXTENSION_ADDR=127.0.0.1:0", "LOCAL_CHAIN=off", "PATH="+t.TempDir(), "MAKELEVEL=1")
	session := atATerminal(t, cmd)
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	session.await(t, "make run\n")
	if _, err := datadir.LoadRun(dir); err != nil {
		t.Error(err)
	}

	nothing := exec.Command("bin/ledger", "tail", "-n", "3")
	nothing.Dir, nothing.Env = home, append(os.Environ(), "LEDGER_DATA_DIR="+dir)
	empty := atATerminal(t, nothing)
	if err := nothing.Wait(); err != nil {
		t.Error(err)
	}
	empty.await(t, "the log is empty so far\n")

	noErr(t, errorOf(session.keyboard.Write([]byte{3}))) // Ctrl-C
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	session.await(t, "stopping\n")
	got := freePort.ReplaceAllString(strings.ReplaceAll(session.text(), dir, "DATA"), "127.0.0.1:PORT")
	if got != string(want) {
		t.Errorf("the session was\n%s\nand is to be\n%s", got, want)
	}
	if log, err := os.ReadFile(filepath.Join(dir, "run.log")); err != nil || !strings.Contains(string(log), "level=INFO") {
		t.Errorf("the log: %v\n%s", err, log)
	}
}
