//go:build unix

package httpapi

import "syscall"

// Gone reports whether the peer has closed the connection, as far as that has
// arrived. What it has sent beyond its request stays to be read.
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
	// Control, since Read would fail once the deadline of reading has passed.
	err = raw.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = n == 0 && err == nil || err == syscall.ECONNRESET
	})
	return gone || err != nil
}
