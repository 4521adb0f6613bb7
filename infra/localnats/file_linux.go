package localnats

import (
	"fmt"
	"os"
	"runtime"

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

// openSynced has each write to a file return once it is durable, its length
// included: one system call less than to write and to sync.
const openSynced = unix.O_DSYNC

// syncWritten makes durable what was written to a file that was opened so.
func syncWritten(*os.File) error { return nil }

// status is which file one is, and how long.
type status struct {
	device uint64
	inode  uint64
	length int64
}

func (s status) same(other status) bool { return s.device == other.device && s.inode == other.inode }

// statusAt returns the status of the file of that name.
func statusAt(path string) (status, error) { return statx(unix.AT_FDCWD, path, 0) }

// statusOf returns the status of an open file.
func statusOf(f *os.File) (status, error) {
	s, err := statx(int(f.Fd()), "", unix.AT_EMPTY_PATH)
	runtime.KeepAlive(f)
	return s, err
}

// statx asks for no times, which os.Stat does. A file that was asked for them
// has its next write stored with a time as fine as the clock, instead of one that
// moves 100 to 1,000 times a second (multigrain timestamps, Linux 6.13), and no
// file is given an earlier time from then on. So had the server's blocks been
// asked, each write to the redo file would have changed its times, which some
// file systems write to the disk on every sync: another 70 µs, a sixth of a lone
// writer's time.
func statx(dir int, path string, flags int) (status, error) {
	var x unix.Statx_t
	_, err := again(func() (int, error) {
		return 0, unix.Statx(dir, path, flags, unix.STATX_INO|unix.STATX_SIZE, &x)
	})
	if err != nil {
		return status{}, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	return status{unix.Mkdev(x.Dev_major, x.Dev_minor), x.Ino, int64(x.Size)}, nil
}

// again repeats a system call that a signal interrupted.
func again(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}
