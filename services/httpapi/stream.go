package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/services/feed"
	"github.com/memory-ledger/ledger/services/memory"
)

// Elements supplies the elements of an array in chunks.
type Elements[E any] interface {
	// More reports whether another chunk follows.
	More() bool
	// Next yields a chunk. If yield returns memory.ErrEnough, Next ends the chunk after
	// that element, without an error.
	Next(ctx context.Context, yield func(E) error) error
}

// StreamArray answers with a JSON array of elements, between prefix and suffix. shown
// returns what is encoded for an element; nil: the element itself. StreamArray reads the
// first chunk before it sends the status, so that a failure can still be an error answer. A
// later failure breaks the connection, so that the client does not take half a list for a
// whole one.
func StreamArray[E any](c *fiber.Ctx, of Elements[E], shown func(E) (any, error), prefix, suffix string) error {
	s := &arrayStream[E]{elements: of, shown: shown, between: ",", suffix: "]" + suffix}
	return s.answer(c, fiber.MIMEApplicationJSON, prefix+"[")
}

// StreamLines answers with one line for each element, between a first and a last line. It
// handles failures as StreamArray does.
func StreamLines[E any](c *fiber.Ctx, of Elements[E], shown func(E) (any, error), first, last string) error {
	s := &arrayStream[E]{elements: of, shown: shown, between: "\n", some: true, suffix: "\n" + last + "\n"}
	return s.answer(c, MIMELines, first)
}

// MIMELines is the media type of JSON lines.
const MIMELines = "application/x-ndjson"

func (s *arrayStream[E]) answer(c *fiber.Ctx, contentType, prefix string) error {
	s.buffer.WriteString(prefix)
	if err := s.fill(Context(c)); err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, contentType)
	if s.done {
		return c.Send(s.buffer.Bytes())
	}
	return Stream(c, s)
}

// Answered answers with a value, unless there is an error.
func Answered(c *fiber.Ctx, value any, err error) error {
	if err != nil {
		return err
	}
	return c.JSON(value)
}

// Done answers that a request was done, unless there is an error.
func Done(c *fiber.Ctx, err error) error { return Answered(c, fiber.Map{"ok": true}, err) }

// Stream answers with a body of unknown length. HTTP/1.0 has no chunks, so there the end
// of the connection ends the body.
func Stream(c *fiber.Ctx, body io.Reader) error {
	if c.Method() == fiber.MethodHead {
		return nil // the server sends no body, but would still send the end of its chunks
	}
	if c.Request().Header.IsHTTP11() {
		return c.SendStream(body)
	}
	c.Context().SetConnectionClose()
	response := c.Response()
	// The server sends chunks for a body of unknown length, or as many bytes as announced. So
	// the announced length is 0, which is not sent, and the body goes past the server.
	response.SetBodyStream(untilClose{body, c.Context().Conn()}, 0)
	response.Header.Del(fiber.HeaderContentLength)
	response.ImmediateHeaderFlush = true
	return nil
}

// untilClose is a body that ends when the connection closes.
type untilClose struct {
	io.Reader
	conn net.Conn
}

// WriteTo implements io.WriterTo, for the server. A failure resets the connection: after
// a clean close, half a body would look like a whole one.
func (b untilClose) WriteTo(io.Writer) (int64, error) {
	_, err := io.Copy(b.conn, b.Reader)
	if c, ok := b.conn.(*conn); ok && err != nil {
		c.abort()
	}
	return 0, err
}

// Close implements io.Closer. It closes the body if the body is an io.Closer.
func (b untilClose) Close() error {
	if closer, ok := b.Reader.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// Gone returns a function that reports whether the client has hung up, or nil if that
// can't be known.
func Gone(c *fiber.Ctx) func() bool {
	if inner, ok := c.Context().Conn().(*conn); ok {
		return inner.Gone
	}
	return nil
}

// arrayStream is a JSON array that is built while it is read.
type arrayStream[E any] struct {
	elements Elements[E]
	shown    func(E) (any, error)
	buffer   bytes.Buffer
	between  string
	suffix   string
	some     bool // something was written, so the next element needs a separator
	done     bool
}

// statusGone is nginx's "client closed request". It reaches no client, but is counted.
const statusGone = 499

// fill reads chunks until there is enough to send or nothing is left.
func (s *arrayStream[E]) fill(ctx context.Context) error {
	for s.elements.More() && s.buffer.Len() < 32<<10 {
		if err := s.elements.Next(ctx, s.element); err != nil {
			return err
		}
	}
	if !s.elements.More() {
		s.buffer.WriteString(s.suffix)
		s.done = true
	}
	return nil
}

func (s *arrayStream[E]) element(e E) (err error) {
	show := any(e)
	if s.shown != nil {
		if show, err = s.shown(e); err != nil {
			return err
		}
	}
	if s.some {
		s.buffer.WriteString(s.between)
	}
	s.some = true
	if err := json.MarshalWrite(&s.buffer, show); err != nil {
		return err
	}
	// This is about how much of an answer is built before the client reads some of it. The
	// server holds that much for a client that reads slowly or not at all.
	if s.buffer.Len() >= 1<<20 {
		return memory.ErrEnough
	}
	return nil
}

// Read implements io.Reader. Each chunk of a long list has its own deadline.
func (s *arrayStream[E]) Read(p []byte) (int, error) {
	if s.buffer.Len() == 0 {
		if s.done {
			return 0, io.EOF
		}
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()
		if err := s.fill(ctx); err != nil {
			return 0, err
		}
	}
	n, err := s.buffer.Read(p)
	// This is the size of the largest buffer that is kept for the next part.
	if s.buffer.Len() == 0 && s.buffer.Cap() > 256<<10 {
		s.buffer = bytes.Buffer{} // free the large buffer while the client reads
	}
	return n, err
}

const (
	// MIMEEventStream is the media type of server-sent events.
	MIMEEventStream = "text/event-stream"
	// heartbeat is the interval at which a stream sends a comment and checks its source.
	heartbeat = 15 * time.Second
	// reconnect is how long clients are asked to wait before they reconnect, in
	// milliseconds.
	reconnect = "1000"
)

// Source supplies the messages of an event stream. Each is a page of an owner's events.
type Source struct {
	// Follower supplies the pages. It is closed when the stream ends.
	Follower *feed.Follower
	// Show removes what the caller may not see.
	Show func(*feed.Page) error
	// Check is called at every heartbeat and before every message. An error ends the stream.
	Check func(ctx context.Context) error
	// Expires is when the stream ends, zero for never.
	Expires time.Time
}

// WantsEventStream reports whether a request asks for an event stream. HTTP/1.0 has no
// chunks, so it gets no stream.
func WantsEventStream(c *fiber.Ctx) bool {
	return c.Request().Header.IsHTTP11() && c.Accepts(fiber.MIMEApplicationJSON, MIMEEventStream) == MIMEEventStream
}

// StreamEvents answers with server-sent events (HTML standard, section 9.2), beginning
// after a cursor; a message's id is its cursor. The stream ends when the service stops,
// when the client leaves or reads too slowly, and when the source fails. Clients then
// reconnect with Last-Event-ID.
func (a *App) StreamEvents(c *fiber.Ctx, after uint64, source Source) error {
	c.Set(fiber.HeaderContentType, MIMEEventStream)
	s := &eventStream{source: source, stopping: a.stopping, conn: c.Context().Conn(), gone: Gone(c), checked: time.Now()}
	if c.Method() == fiber.MethodHead {
		return s.Close()
	}
	fmt.Fprintf(&s.buffer, "retry: %s\nid: %d\n\n", reconnect, after)
	return c.SendStream(s)
}

// eventStream is a body that is built while it is read.
type eventStream struct {
	source   Source
	stopping context.Context
	conn     net.Conn
	gone     func() bool
	checked  time.Time // when the source was last checked
	buffer   bytes.Buffer
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
	due, expires, now := s.checked.Add(heartbeat), s.source.Expires, time.Now()
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
	page, err := s.source.Follower.Next(wait)
	if err == nil {
		err = s.source.Show(&page)
	}
	switch {
	case err == nil:
		// The message may be the one that ends the right to it.
		if err := s.check(); err != nil {
			return err
		}
		fmt.Fprintf(&s.buffer, "id: %d\ndata: %s\n\n", page.Cursor, page.AppendJSON(nil))
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
func (s *eventStream) Close() error {
	s.source.Follower.Close()
	return nil
}
