//go:build !linux

package dial

import (
	"syscall"
	"time"
)

var control func(network, address string, raw syscall.RawConn) error

// userTimeout does nothing: only Linux has the option. Keepalives still find a machine that
// vanished while no data was on its way.
func userTimeout(syscall.RawConn, time.Duration) error { return nil }
