//go:build unix && !linux

package natstest

import "errors"

// limitFiles is unsupported: this system can't limit another process.
func limitFiles(int, uint64) (uint64, error) { return 0, errors.ErrUnsupported }

// awaitStopped can't wait on this system: the child may run on for an instant.
func awaitStopped(int) error { return nil }
