package child_test

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// After SIGKILL to the parent, its child ends, too.
func TestKilledParentTakesItsChildAlong(t *testing.T) {
	t.Parallel()
	parent, grandchild := start(t, "parent")
	proc, err := os.FindProcess(grandchild)
	must(t, err)
	if err := proc.Signal(syscall.Signal(0)); err != nil {
		t.Fatalf("the grandchild should be up: %v", err)
	}
	must(t, parent.Kill())
	err = proc.WithHandle(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			n, err := unix.Poll(fds, 10_000)
			if err == unix.EINTR {
				continue
			}
			if n != 1 || err != nil {
				t.Errorf("process %d outlived its parent by 10 s (%v)", grandchild, err)
			}
			return
		}
	})
	must(t, err)
}
