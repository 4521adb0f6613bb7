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
	if err := f.Sync(); err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return nil
}
