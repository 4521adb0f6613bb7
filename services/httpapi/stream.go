package httpapi

import (
	"bytes"
	"context"
	"io"
	"net"

	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/services/memory"
)

// Elements brings what an array is made of in chunks.
type Elements[E any] interface {
	// More reports whether another chunk follows.
	More() bool
	// Next yields a chunk. It ends early, without an error, where yield returns
	// memory.ErrEnough, with the element that it was called with.
	Next(ctx context.Context, yield func(E) error) error
}

// StreamMemories answers with a JSON array of the cursor's memories, between
// prefix and suffix, as StreamArray does.
func StreamMemories(c *fiber.Ctx, cursor *memory.Cursor, prefix, suffix string) error {
	cursor.Abandoned = Gone(c)
	return StreamArray(c, cursor, (*memory.View).AppendJSON, prefix, suffix)
}

// StreamArray answers with a JSON array of elements, between prefix and suffix.
// The first chunk is read before the status is sent, so that a failure is still
// an error. A failure after that breaks the connection, so that the client does
// not take half a list for a whole one.
func StreamArray[E any](c *fiber.Ctx, of Elements[E], appendJSON func(E, []byte) ([]byte, error), prefix, suffix string) error {
	s := &arrayStream[E]{elements: of, appendJSON: appendJSON, between: ",", suffix: "]" + suffix}
	return s.answer(c, fiber.MIMEApplicationJSON, prefix+"[")
}

// StreamLines answers with a line for each element, between a first line and a last, as
// StreamArray does.
func StreamLines[E any](c *fiber.Ctx, of Elements[E], appendJSON func(E, []byte) ([]byte, error), first, last string) error {
	s := &arrayStream[E]{elements: of, appendJSON: appendJSON, between: "\n", some: true, suffix: "\n" + last + "\n"}
	return s.answer(c, MIMELines, first)
}

// MIMELines is the media type of lines of JSON.
const MIMELines = "application/x-ndjson"

func (s *arrayStream[E]) answer(c *fiber.Ctx, contentType, prefix string) error {
	s.buffer = *bytes.NewBuffer(Buffer(c))
	s.buffer.WriteString(prefix)
	if err := s.fill(Context(c)); err != nil {
		return err
	}
	if s.done {
		if err := SendJSON(c, s.buffer.Bytes()); err != nil {
			return err
		}
		c.Set(fiber.HeaderContentType, contentType)
		return nil
	}
	c.Set(fiber.HeaderContentType, contentType)
	return Stream(c, s)
}

// Buffer returns an empty buffer that an answer may be made in: the connection's, as
// the answer before it left it.
func Buffer(c *fiber.Ctx) []byte { return c.Response().SwapBody(nil)[:0] }

// SendJSON answers with JSON, which the connection takes over.
func SendJSON(c *fiber.Ctx, text []byte) error {
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	if cap(text) > keptAnswer {
		return c.Send(text)
	}
	c.Response().SwapBody(text)
	return nil
}

// Stream answers with a body of unknown length. HTTP/1.0 knows no chunks: there
// the end of the connection is that of the body.
func Stream(c *fiber.Ctx, body io.Reader) error {
	if c.Method() == fiber.MethodHead {
		return nil // the server would end the chunks of a body that it does not send
	}
	if c.Request().Header.IsHTTP11() {
		return c.SendStream(body)
	}
	c.Context().SetConnectionClose()
	response := c.Response()
	// The server sends chunks where a length is not known, even for identity
	// encoding. So it is told one, 0, which is not sent and which untilClose
	// keeps to, as far as the server counts.
	response.SetBodyStream(untilClose{body, c.Context().Conn()}, 0)
	response.Header.Del(fiber.HeaderContentLength)
	return nil
}

// untilClose is a body that ends where the connection does.
type untilClose struct {
	io.Reader
	conn net.Conn
}

// WriteTo implements io.WriterTo, for the server. A failure resets the
// connection: closed in good order, half a body would pass for a whole one.
func (b untilClose) WriteTo(w io.Writer) (int64, error) {
	_, err := io.Copy(w, b.Reader)
	if c, ok := b.conn.(*conn); ok && err != nil {
		c.abort()
	}
	return 0, err
}

// Close implements io.Closer, for bodies that are one.
func (b untilClose) Close() error {
	if closer, ok := b.Reader.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// Gone returns what reports that the client has hung up, nil where that can't be
// known.
func Gone(c *fiber.Ctx) func() bool {
	if inner, ok := c.Context().Conn().(*conn); ok {
		return inner.Gone
	}
	return nil
}

const (
	// flushBytes is how much is gathered before it is handed on.
	flushBytes = 32 << 10
	// heldBytes is about how much of an answer is made before some of it is read: a
	// client that reads slowly, or not at all, has the server keep it.
	heldBytes = 1 << 20
	// keptAnswer is the size of the largest buffer that a connection keeps for its
	// next answer. A buffer that is allocated for each request has to be collected,
	// and a running collector slows down goroutines that allocate much.
	keptAnswer = 16 << 10
)

// arrayStream is a JSON array that is made while it is read.
type arrayStream[E any] struct {
	elements   Elements[E]
	appendJSON func(E, []byte) ([]byte, error)
	buffer     bytes.Buffer
	between    string
	suffix     string
	some       bool // something was written that an element is to be kept apart from
	done       bool
}

// statusGone is nginx's "client closed request". It reaches no client, but is
// counted.
const statusGone = 499

// fill reads chunks until there is something to send or nothing left.
func (s *arrayStream[E]) fill(ctx context.Context) error {
	for s.elements.More() && s.buffer.Len() < flushBytes {
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

func (s *arrayStream[E]) element(e E) error {
	if s.some {
		s.buffer.WriteString(s.between)
	}
	s.some = true
	text, err := s.appendJSON(e, s.buffer.AvailableBuffer())
	if err != nil {
		return err
	}
	_, _ = s.buffer.Write(text) // a bytes.Buffer takes everything
	if s.buffer.Len() >= heldBytes {
		return memory.ErrEnough
	}
	return nil
}

// Read implements io.Reader. Each chunk of a long list has a deadline of its
// own.
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
	if s.buffer.Len() == 0 && s.buffer.Cap() > keptCapacity {
		s.buffer = bytes.Buffer{} // while the client takes in what was long
	}
	return n, err
}

// keptCapacity is how large a buffer may be that is kept for the next part.
const keptCapacity = 256 << 10
