//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package memoryledger

import (
	"os"
	"syscall"
)

// lockFile waits until this process alone holds the file. Closing the file ends the lock.
func lockFile(file *os.File) error {
	for {
		// A signal, such as the runtime's own, interrupts the wait.
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
			return err
		}
	}
}
