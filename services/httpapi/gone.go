package httpapi

import "syscall"

// Gone reports whether the peer's close of the connection has arrived. Bytes that the
// peer sent beyond its request remain to be read.
func (c *conn) Gone() bool {
	inner, ok := c.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := inner.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	// Use Control: Read would fail once the read deadline has passed.
	err = raw.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = n == 0 && err == nil || err == syscall.ECONNRESET
	})
	return gone || err != nil
}
