// Package dial makes TCP connections that break soon after the other machine vanishes. A
// machine that loses its power or its network says no goodbye, and the kernel's own limits
// are long: it repeats unacknowledged data for 15 minutes, and looks after a silent peer
// only after two hours.
package dial

import (
	"net"
	"time"
)

// Silence is how long the other machine's kernel may acknowledge nothing before a
// connection breaks. Its program may be silent for as long as it likes.
const Silence = 3 * time.Second

// Dialer returns a dialer whose connections break after Silence.
func Dialer() *net.Dialer {
	// A first packet that is lost is sent again after a second.
	return &net.Dialer{Timeout: 1500 * time.Millisecond, KeepAliveConfig: keepAlive(Silence), Control: control}
}

// Extend lets a connection break only after the given silence. A program that does not
// read for so long, although data waits for it, counts as silent too.
func Extend(conn net.Conn, silence time.Duration) error {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	if err := tcp.SetKeepAliveConfig(keepAlive(silence)); err != nil {
		return err
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	return userTimeout(raw, silence)
}

// keepAlive looks after a silent peer each second, from a third of the silence on.
func keepAlive(silence time.Duration) net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: silence / 3, Interval: time.Second, Count: int(silence * 2 / 3 / time.Second)}
}
