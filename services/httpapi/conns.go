package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// past is a deadline that has passed. The zero time means no deadline.
var past = time.Unix(1, 0)

// listener bounds the open connections and ends them cleanly. Only the goroutine that
// serves a connection closes it: the HTTP server panics if another goroutine has closed
// it.
type listener struct {
	net.Listener
	most int // bound on open connections; further ones wait in the system's backlog
	log  *slog.Logger

	mu      sync.Mutex
	open    map[*conn]bool // false once it only lingers
	ending  bool
	changed *sync.Cond // a connection was closed, or a timeout has passed
	// full is set while a connection waits for a place, and when the listener is to end.
	// Other connections then close after their next answer.
	full atomic.Bool
}

func newListener(inner net.Listener, most int, log *slog.Logger) *listener {
	l := &listener{Listener: inner, most: most, log: log, open: map[*conn]bool{}}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// Accept implements net.Listener. Until the listener is closed, it tries again after an
// error: the process or the system may have too many open files, or the peer has left.
func (l *listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err == nil {
			return l.admit(inner), nil
		}
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		l.log.Warn("connections can't be accepted for a moment", "err", err)
		time.Sleep(100 * time.Millisecond)
	}
}

// admit waits until one more connection may be open, or the listener ends. While it
// waits, it ends the connection that has been idle longest.
func (l *listener) admit(inner net.Conn) *conn {
	c := &conn{Conn: inner, of: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.open) >= l.most && !l.ending {
		l.full.Store(true)
		if idle := l.longestIdle(); idle != nil {
			idle.evicted.Store(true)
			idle.readNoMore()
		}
		l.changed.Wait()
	}
	l.full.Store(false)
	l.open[c] = true
	c.idle.Store(time.Now().UnixNano())
	if l.ending {
		c.readNoMore()
	}
	return c
}

// longestIdle returns the connection that has waited longest for a request, or nil if
// none waits.
func (l *listener) longestIdle() (found *conn) {
	var since int64
	for c, serves := range l.open {
		if at := c.idle.Load(); serves && at > 0 && !c.unread.Load() && (found == nil || at < since) {
			found, since = c, at
		}
	}
	return found
}

// hasIdle wakes admit, which may wait for a connection that it can end.
func (l *listener) hasIdle() {
	if l.full.Load() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changed.Broadcast()
	}
}

// end stops reading from all connections. A request that has not fully arrived is not
// run. The answer to a request that has arrived is sent, and its connection then closes.
func (l *listener) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending = true
	l.changed.Broadcast()
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

// lingers records that a connection is no longer served.
func (l *listener) lingers(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[c] = false
}

// forget records that a connection is closed.
func (l *listener) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
	l.changed.Broadcast()
}

// conn is a connection that closes gently. If a connection closes while its peer is still
// sending, it is reset, and the reset overtakes the answer: the client would see a broken
// connection instead of a 413.
type conn struct {
	net.Conn
	of      *listener
	idle    atomic.Int64 // Unix nanoseconds when it began to wait for a request; 0: it has a request
	unread  atomic.Bool  // reads have stopped
	evicted atomic.Bool  // unread is set to make room for another connection
	aborted bool
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.idle.Store(0)
	}
	if err != nil && c.idle.Load() != 0 && c.unread.Load() {
		err = io.EOF // no request has begun, so there is nothing to refuse
	}
	return n, err
}

// readNoMore makes every read fail with a timeout, including a read that waits now.
func (c *conn) readNoMore() {
	c.unread.Store(true)
	_ = c.Conn.SetReadDeadline(past) // fails if the connection is closed
}

// SetReadDeadline implements net.Conn. After readNoMore, the deadline stays in the past.
func (c *conn) SetReadDeadline(t time.Time) error {
	err := c.Conn.SetReadDeadline(t)
	if c.unread.Load() { // checked last: readNoMore may have run in between
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

// CloseWrite tells the peer that no more data follows.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed
}

// Close tells the peer that no more data follows, and returns. The connection itself
// closes when the peer has read that, or soon after. It closes at once if it was idle and
// another connection needs its place.
func (c *conn) Close() error {
	if c.aborted || (c.evicted.Load() && c.idle.Load() != 0) || c.CloseWrite() != nil {
		defer c.of.forget(c)
		return c.Conn.Close()
	}
	c.of.lingers(c)
	go func() {
		defer c.of.forget(c)
		_ = c.Conn.SetReadDeadline(time.Now().Add(2 * time.Second))
		_, _ = io.Copy(io.Discard, io.LimitReader(c.Conn, 64<<20))
		_ = c.Conn.Close()
	}()
	return nil
}

// follow is called when the HTTP server changes a connection's state.
func follow(inner net.Conn, state fasthttp.ConnState) {
	c, ok := inner.(*conn)
	switch {
	case !ok:
	case state == fasthttp.StateIdle:
		c.idle.Store(time.Now().UnixNano())
		c.of.hasIdle()
	case state == fasthttp.StateActive:
		c.idle.Store(0)
	}
}

// errStopping refuses a request that arrived after the service had begun to stop. The
// request was not run.
var errStopping = Refuse(http.StatusServiceUnavailable, "the service is stopping; try again")

// Serve answers requests on the listener until ctx ends, and on its open connections for up
// to a second more. Then it runs no further request. It returns when every begun answer is
// sent and its connection closed, or after grace. A request that is unfinished by then may
// be stored without an answer.
//
// Call it once. It does not use the HTTP server's own shutdown, which closes connections
// that are being read and forgets answers that it has not flushed.
func (a *App) Serve(ctx context.Context, inner net.Listener, grace time.Duration) error {
	connections := newListener(inner, cmp.Or(a.cfg.MaxConnections, DefaultConnections), a.cfg.Log)
	served := make(chan error, 1)
	go func() { served <- a.Listener(connections) }()
	select {
	case err := <-served:
		return fmt.Errorf("%s: serve: %w", a.cfg.Service, err)
	case <-ctx.Done():
	}
	_ = inner.Close() // this only ends Accept: a gateway connects to another server
	// A gateway sends more requests on the connections that it kept: each gets one more
	// answer, and then the gateway leaves it.
	connections.full.Store(true)
	connections.wait(time.Second)
	a.stop()
	connections.end()
	if err := <-served; err != nil {
		return fmt.Errorf("%s: stop: %w", a.cfg.Service, err)
	}
	connections.wait(grace)
	return nil
}

// isStopping reports whether the service has begun to stop.
func (a *App) isStopping() bool { return a.stopping.Err() != nil }
