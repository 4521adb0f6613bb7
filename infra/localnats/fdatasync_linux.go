package localnats

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// syncFile makes a file, or the names in a folder, durable. fdatasync writes
// the length of a file along with its data; it leaves out only times.
func syncFile(path string) error {
	// os.Open would ask the poller about a file that no poller takes: five more
	// system calls, for each round of writes.
	fd, err := again(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	if _, err := again(func() (int, error) { return 0, unix.Fdatasync(fd) }); err != nil {
		return fmt.Errorf("%w: %w", errLost, &os.PathError{Op: "fdatasync", Path: path, Err: err})
	}
	return nil
}

// again repeats a system call that a signal interrupted.
func again(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}
