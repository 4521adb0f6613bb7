package localnats

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncFile makes a file, or the names in a folder, durable. fdatasync writes
// the length of a file along with its data; it leaves out only times.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}
