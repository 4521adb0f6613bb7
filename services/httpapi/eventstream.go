package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/gofiber/fiber/v2"
)

const (
	// MIMEEventStream is the media type of server-sent events.
	MIMEEventStream = "text/event-stream"
	// heartbeat is the interval at which a stream sends a comment and checks its source.
	heartbeat = 15 * time.Second
	// reconnect is how long clients are asked to wait before they reconnect, in
	// milliseconds.
	reconnect = "1000"
)

// Source supplies the messages of an event stream.
type Source interface {
	// Next waits for a message and returns its id and its data. The data is one line.
	Next(ctx context.Context) (id string, data []byte, err error)
	// Check is called at every heartbeat and before every message. An error ends the stream.
	Check(ctx context.Context) error
	// Expires is when the stream ends, zero for never.
	Expires() time.Time
	// Close is called when the stream ends.
	Close() error
}

// WantsEventStream reports whether a request asks for an event stream. HTTP/1.0 has no
// chunks, so it gets no stream.
func WantsEventStream(c *fiber.Ctx) bool {
	return c.Request().Header.IsHTTP11() && c.Accepts(fiber.MIMEApplicationJSON, MIMEEventStream) == MIMEEventStream
}

// StreamEvents answers with server-sent events (HTML standard, section 9.2), beginning
// after the message with the given id. The stream ends when the service stops, when the
// client leaves or reads too slowly, and when the source fails. Clients then reconnect
// with Last-Event-ID.
func (a *App) StreamEvents(c *fiber.Ctx, id string, source Source) error {
	c.Set(fiber.HeaderContentType, MIMEEventStream)
	if c.Method() == fiber.MethodHead {
		return source.Close()
	}
	s := &eventStream{source: source, stopping: a.stopping, conn: c.Context().Conn(), gone: Gone(c), heartbeat: a.heartbeat, checked: time.Now()}
	s.buffer.WriteString("retry: " + reconnect + "\nid: " + id + "\n\n")
	return c.SendStream(s)
}

// eventStream is a body that is built while it is read.
type eventStream struct {
	source    Source
	stopping  context.Context
	conn      net.Conn
	gone      func() bool
	heartbeat time.Duration
	checked   time.Time // when the source was last checked
	buffer    bytes.Buffer
}

// Read implements io.Reader. The server writes the returned bytes at once, in the
// goroutine that calls Read.
func (s *eventStream) Read(p []byte) (int, error) {
	if s.buffer.Len() == 0 {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	// This is how long a client may take to read a part of a stream.
	_ = s.conn.SetWriteDeadline(time.Now().Add(30 * time.Second)) // fails if the connection is closed
	n, err := s.buffer.Read(p)
	if s.buffer.Len() == 0 && s.buffer.Cap() > answerBytes {
		s.buffer = bytes.Buffer{}
	}
	return n, err
}

// fill waits for a message, or until the next check of the source is due.
func (s *eventStream) fill() error {
	due, expires, now := s.checked.Add(s.heartbeat), s.source.Expires(), time.Now()
	if !expires.IsZero() && !now.Before(expires) {
		return io.EOF
	}
	if !now.Before(due) {
		return s.beat()
	}
	if !expires.IsZero() && expires.Before(due) {
		due = expires
	}
	wait, cancel := context.WithDeadline(s.stopping, due)
	defer cancel()
	id, data, err := s.source.Next(wait)
	switch {
	case err == nil:
		// The message may be the one that ends the right to it.
		if err := s.check(); err != nil {
			return err
		}
		s.buffer.WriteString("id: " + id + "\ndata: ")
		_, _ = s.buffer.Write(data) // a bytes.Buffer takes everything
		s.buffer.WriteString("\n\n")
		return nil
	case s.stopping.Err() != nil:
		return io.EOF
	case errors.Is(err, context.DeadlineExceeded) && due == expires:
		return io.EOF
	case errors.Is(err, context.DeadlineExceeded):
		return s.beat()
	}
	return err
}

// beat sends a comment if the stream may continue.
func (s *eventStream) beat() error {
	if err := s.check(); err != nil {
		return err
	}
	s.checked = time.Now()
	s.buffer.WriteString(":\n\n")
	return nil
}

// check ends the stream if the source does, or if the client has left.
func (s *eventStream) check() error {
	ctx, cancel := context.WithTimeout(s.stopping, requestTimeout)
	defer cancel()
	if s.gone != nil && s.gone() || s.source.Check(ctx) != nil {
		return io.EOF
	}
	return nil
}

// Close implements io.Closer, for the server.
func (s *eventStream) Close() error { return s.source.Close() }
