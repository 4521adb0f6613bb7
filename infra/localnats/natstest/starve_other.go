//go:build unix && !linux

package natstest

import "errors"

// limitFiles can't be done to another process here.
func limitFiles(int, uint64) (uint64, error) { return 0, errors.ErrUnsupported }
