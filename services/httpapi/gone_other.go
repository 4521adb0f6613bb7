//go:build !unix

package httpapi

// Gone reports whether the peer has closed the connection. Here that shows only
// when it is written to.
func (c *conn) Gone() bool { return false }
