package door

import (
	"io"
	"net"
	"time"
)

// How long a closed connection lingers, and how much it takes in meanwhile.
const (
	lingerTime  = 2 * time.Second
	lingerBytes = 64 << 20
)

// lingering is a listener whose connections close gently. A connection that
// is closed while the peer is still sending is reset, and the reset overtakes
// the answer: whoever sends a body that is too large would learn of a broken
// connection instead of a 413.
type lingering struct{ net.Listener }

// Accept implements net.Listener.
func (l lingering) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
		return &lingeringConn{TCPConn: tcp}, nil
	}
	return conn, err
}

type lingeringConn struct {
	*net.TCPConn
	beginning
	aborted bool
}

// Read implements io.Reader.
func (c *lingeringConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	c.see(p[:n])
	return n, err
}

// abort makes Close a reset, which tells the peer that something is missing.
func (c *lingeringConn) abort() { c.aborted = c.SetLinger(0) == nil }

// Close says that nothing more comes, and returns. The connection itself is
// closed when the peer has read that, or soon after.
func (c *lingeringConn) Close() error {
	if c.aborted || c.CloseWrite() != nil {
		return c.TCPConn.Close()
	}
	go func() {
		_ = c.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.Copy(io.Discard, io.LimitReader(c.TCPConn, lingerBytes))
		_ = c.TCPConn.Close()
	}()
	return nil
}
