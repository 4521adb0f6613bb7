package dial

import (
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func control(network, _ string, raw syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	return userTimeout(raw, Silence)
}

// userTimeout bounds how long the kernel waits for the acknowledgment of sent data.
func userTimeout(raw syscall.RawConn, limit time.Duration) error {
	var err error
	if failed := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
	}); failed != nil {
		return failed
	}
	return err
}
