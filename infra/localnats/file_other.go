//go:build !linux

package localnats

import (
	"fmt"
	"os"
)

// syncFile makes a file, or the names in a folder, durable. On macOS
// os.File.Sync asks the drive too (F_FULLFSYNC).
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return syncWritten(f)
}

// openSynced says nothing here: whoever writes calls syncWritten.
const openSynced = 0

// syncWritten makes durable what was written to a file.
func syncWritten(f *os.File) error {
	if err := f.Sync(); err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return nil
}

// status is which file one is, and how long.
type status struct {
	info   os.FileInfo
	length int64
}

func (s status) same(other status) bool { return os.SameFile(s.info, other.info) }

// statusAt returns the status of the file of that name.
func statusAt(path string) (status, error) { return statusFrom(os.Stat(path)) }

// statusOf returns the status of an open file.
func statusOf(f *os.File) (status, error) { return statusFrom(f.Stat()) }

func statusFrom(info os.FileInfo, err error) (status, error) {
	if err != nil {
		return status{}, err
	}
	return status{info, info.Size()}, nil
}
