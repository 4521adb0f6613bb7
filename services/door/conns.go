package door

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// How long a closed connection lingers, and how much it takes in meanwhile.
const (
	lingerTime  = 2 * time.Second
	lingerBytes = 64 << 20
)

// past is a deadline that is over. The zero time means none.
var past = time.Unix(1, 0)

// listener knows its open connections, to end them in good order. Nothing but
// the goroutine that serves a connection closes it: the HTTP server panics over
// one that somebody else has closed.
type listener struct {
	net.Listener

	mu      sync.Mutex
	open    map[*conn]bool // false once it only lingers
	ending  bool
	changed *sync.Cond // a connection is closed, or a deadline is over
}

func newListener(inner net.Listener) *listener {
	l := &listener{Listener: inner, open: map[*conn]bool{}}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, of: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[c] = true
	if l.ending {
		c.readNoMore()
	}
	return c, nil
}

// end has nothing more read from any connection. A request that has not arrived
// whole is not carried out; the answer to one that has arrived is sent, and its
// connection is closed after it.
func (l *listener) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending = true
	for c, serves := range l.open {
		if serves {
			c.readNoMore()
		}
	}
}

// wait returns when all connections are closed, or after timeout.
func (l *listener) wait(timeout time.Duration) {
	over := false
	defer time.AfterFunc(timeout, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		over = true
		l.changed.Broadcast()
	}).Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.open) > 0 && !over {
		l.changed.Wait()
	}
}

// lingers says that a connection is no longer served.
func (l *listener) lingers(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[c] = false
}

// forget says that a connection is closed.
func (l *listener) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
	l.changed.Broadcast()
}

// conn is a connection that closes gently. One that is closed while the peer is
// still sending is reset, and the reset overtakes the answer: the client would
// see a broken connection instead of a 413.
type conn struct {
	net.Conn
	beginning
	of      *listener
	unread  atomic.Bool // nothing more is read
	aborted bool
}

// Read implements io.Reader.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.see(p[:n])
	if err != nil && !c.read && c.unread.Load() {
		err = io.EOF // no request has begun, so there is none to refuse
	}
	return n, err
}

// readNoMore makes every read fail with a timeout, one that waits now, too.
func (c *conn) readNoMore() {
	c.unread.Store(true)
	_ = c.Conn.SetReadDeadline(past) // fails where the connection is closed
}

// SetReadDeadline implements net.Conn. After readNoMore the deadline stays over.
func (c *conn) SetReadDeadline(t time.Time) error {
	err := c.Conn.SetReadDeadline(t)
	if c.unread.Load() { // looked at last: readNoMore may have come in between
		err = c.Conn.SetReadDeadline(past)
	}
	return err
}

// abort makes Close a reset, which tells the peer that something is missing.
func (c *conn) abort() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		c.aborted = tcp.SetLinger(0) == nil
	}
}

// CloseWrite says that nothing more comes.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed
}

// Close says that nothing more comes, and returns. The connection itself is
// closed when the peer has read that, or soon after.
func (c *conn) Close() error {
	if c.aborted || c.CloseWrite() != nil {
		defer c.of.forget(c)
		return c.Conn.Close()
	}
	c.of.lingers(c)
	go func() {
		defer c.of.forget(c)
		_ = c.Conn.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.Copy(io.Discard, io.LimitReader(c.Conn, lingerBytes))
		_ = c.Conn.Close()
	}()
	return nil
}
