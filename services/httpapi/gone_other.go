//go:build !unix

package httpapi

// Gone reports whether the peer has closed the connection. On this platform, only a write
// can find that out.
func (c *conn) Gone() bool { return false }
