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
