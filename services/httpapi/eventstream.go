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
	// heartbeat is how often a stream sends a comment and its source is checked.
	heartbeat = 15 * time.Second
	// takenIn is how long a client may take for a part of a stream.
	takenIn = 30 * time.Second
	// reconnect is what clients are told to wait, in milliseconds.
	reconnect = "1000"
)

// Source brings the messages of an event stream.
type Source interface {
	// Next waits for a message and returns its id and its data, in one line.
	Next(ctx context.Context) (id string, data []byte, err error)
	// Check is asked at every heartbeat whether the stream may go on.
	Check(ctx context.Context) error
	// Close is called when the stream has ended.
	Close() error
}

// WantsEventStream reports whether a request asks for an event stream. HTTP/1.0 has no
// chunks, so it gets none.
func WantsEventStream(c *fiber.Ctx) bool {
	return c.Request().Header.IsHTTP11() && c.Accepts(fiber.MIMEApplicationJSON, MIMEEventStream) == MIMEEventStream
}

// StreamEvents answers with server-sent events (HTML standard, section 9.2), beginning
// after the message with the given id. The stream ends when the service stops, when the
// client is gone, or takes in too little, and when the source fails. Clients then ask
// again with Last-Event-ID.
func (a *App) StreamEvents(c *fiber.Ctx, id string, source Source) error {
	c.Set(fiber.HeaderContentType, MIMEEventStream)
	if c.Method() == fiber.MethodHead {
		return source.Close()
	}
	s := &eventStream{source: source, stopping: a.stopping, conn: c.Context().Conn(), gone: Gone(c), heartbeat: a.heartbeat, checked: time.Now()}
	s.buffer.WriteString("retry: " + reconnect + "\nid: " + id + "\n\n")
	return c.SendStream(s)
}

// eventStream is a body that is made while it is read.
type eventStream struct {
	source    Source
	stopping  context.Context
	conn      net.Conn
	gone      func() bool
	heartbeat time.Duration
	checked   time.Time // when the source was last checked
	buffer    bytes.Buffer
}

// Read implements io.Reader. The server writes what it returns at once, in the goroutine
// that calls it.
func (s *eventStream) Read(p []byte) (int, error) {
	if s.buffer.Len() == 0 {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(takenIn)) // fails where the connection is closed
	n, err := s.buffer.Read(p)
	if s.buffer.Len() == 0 && s.buffer.Cap() > keptAnswer {
		s.buffer = bytes.Buffer{}
	}
	return n, err
}

// fill waits for a message, or until the source is to be checked.
func (s *eventStream) fill() error {
	due := s.checked.Add(s.heartbeat)
	if !time.Now().Before(due) {
		return s.check()
	}
	wait, cancel := context.WithDeadline(s.stopping, due)
	defer cancel()
	id, data, err := s.source.Next(wait)
	switch {
	case err == nil:
		s.buffer.WriteString("id: " + id + "\ndata: ")
		_, _ = s.buffer.Write(data) // a bytes.Buffer takes everything
		s.buffer.WriteString("\n\n")
		return nil
	case s.stopping.Err() != nil:
		return io.EOF
	case errors.Is(err, context.DeadlineExceeded):
		return s.check()
	}
	return err
}

// check sends a comment if the stream may go on and someone reads it.
func (s *eventStream) check() error {
	ctx, cancel := context.WithTimeout(s.stopping, requestTimeout)
	defer cancel()
	if s.gone != nil && s.gone() || s.source.Check(ctx) != nil {
		return io.EOF
	}
	s.checked = time.Now()
	s.buffer.WriteString(":\n\n")
	return nil
}

// Close implements io.Closer, for the server.
func (s *eventStream) Close() error { return s.source.Close() }
