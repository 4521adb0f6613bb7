package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal returns the two ends of a terminal: output written to tty is read from screen.
func terminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	return screen, tty
}

// On a terminal each step has a bar, which disappears when the step is done.
func TestStepsOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	screen, tty := terminal(t)
	pieces := make(chan string)
	go func() {
		defer close(pieces)
		for buf := make([]byte, 4096); ; {
			n, err := screen.Read(buf)
			if err != nil {
				return // the other end is closed
			}
			pieces <- string(buf[:n])
		}
	}()
	s, shown, deadline := &steps{out: tty}, "", time.After(2*time.Minute)
	until := func(again func(), wanted ...string) {
		t.Helper()
		for shown = ""; slices.ContainsFunc(wanted, func(want string) bool { return !strings.Contains(shown, want) }); {
			select {
			case piece := <-pieces:
				shown += piece
			case <-deadline:
				t.Fatalf("%q: not shown in %q", wanted, shown)
			default:
				again() // a bar draws ten times a second at most
				runtime.Gosched()
			}
		}
	}
	until(func() { s.at("copying log", true, 3<<20, 0) }, "copying log", "MB")
	until(func() { s.at("checking log", false, 50, 200) }, "checking log", "50/200", "25%")
	s.end()
}
