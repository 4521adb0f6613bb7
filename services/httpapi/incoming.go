package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
	"golang.org/x/sync/semaphore"
)

// smallBody is the length in bytes up to which a body is read before its request is
// handled. The HTTP server reads that much of any body, into a buffer of this size.
const smallBody = 8 << 10

// errBodies: too many bodies are arriving for the room that is left.
var errBodies = errors.New("too many request bodies at once")

// bodies bounds the bytes that bodies hold.
type bodies struct{ all, public *semaphore.Weighted }

func newBodies() bodies {
	// The longer bodies of all requests of an API, and of those that need no credential.
	return bodies{semaphore.NewWeighted(64 << 20), semaphore.NewWeighted(8 << 20)}
}

// incoming is a body that is still arriving.
type incoming struct {
	app     *App
	whole   bool // the body was read to its end
	held    int64
	from    *semaphore.Weighted // the budget that held was acquired from
	renewed context.CancelFunc  // cancels the context that starts after the body
}

// begin reads a short body, and any body of a method that has none. A route reads a long
// body with Body, once it knows the caller. Memory is allocated for the bytes that have
// arrived, not for the announced length.
func (b *incoming) begin(ctx *fasthttp.RequestCtx) error {
	request := &ctx.Request
	if !request.IsBodyStream() {
		return nil
	}
	length := request.Header.ContentLength() // negative: chunks
	switch limit := longest(&request.Header); {
	case int64(length) > limit:
		return tooLarge(limit)
	case length >= 0 && length <= smallBody:
		request.Body() // has already arrived
	case !slices.Contains([]string{fiber.MethodPost, fiber.MethodPut, fiber.MethodPatch}, string(ctx.Method())):
		return b.read(request, smallBody, nil)
	default:
		b.whole = false
	}
	return nil
}

// Body returns the body of a request. If a long body is still arriving, Body reads it
// now, and the request's deadline does not run meanwhile. Call it only once the caller is
// known. Its errors say why the request is refused.
func Body(c *fiber.Ctx) ([]byte, error) {
	return bodyOf(c, func(b bodies) *semaphore.Weighted { return b.all })
}

// publicBody is Body for public routes, which any client may call.
func publicBody(c *fiber.Ctx) ([]byte, error) {
	return bodyOf(c, func(b bodies) *semaphore.Weighted { return b.public })
}

func bodyOf(c *fiber.Ctx, budget func(bodies) *semaphore.Weighted) ([]byte, error) {
	body, ok := c.Locals(localBody).(*incoming)
	if !ok || body.whole {
		return c.Request().Body(), nil
	}
	if err := body.read(c.Request(), MaxBody, budget(body.app.bodies)); err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, body.renewed = context.WithTimeout(context.WithoutCancel(Context(c)), requestTimeout)
	c.Locals(localContext, ctx)
	return c.Request().Body(), nil
}

// Arriving returns the body of a request as it arrives, for a route that takes more than
// Body. The request's deadline does not run from then on: the context ends when the
// service stops. Call it only once the caller is known.
func Arriving(c *fiber.Ctx) (context.Context, io.Reader, error) {
	if err := contentEncoding(c); err != nil {
		return nil, nil, err
	}
	body, ok := c.Locals(localBody).(*incoming)
	if !ok || body.whole {
		return Context(c), bytes.NewReader(c.Request().Body()), nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(Context(c)))
	stop := context.AfterFunc(body.app.stopping, cancel)
	body.renewed = func() { stop(); cancel() }
	c.Locals(localContext, ctx)
	return ctx, &arriving{body, c.Request().BodyStream(), c.Context().Conn()}, nil
}

// arriving reads a body. The connection's timeout starts over with each part.
type arriving struct {
	of     *incoming
	stream io.Reader
	conn   net.Conn
}

func (a *arriving) Read(p []byte) (int, error) {
	if err := a.conn.SetReadDeadline(time.Now().Add(readTimeout)); err != nil {
		return 0, err
	}
	n, err := a.stream.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		a.of.whole = true
	case err != nil:
		err = notArrived(err)
	}
	return n, err
}

// notArrived is the refusal of a request whose body broke off.
func notArrived(err error) error {
	if network, ok := errors.AsType[net.Error](err); ok && network.Timeout() {
		return fiber.ErrRequestTimeout
	}
	return Refuse(http.StatusBadRequest, "the body did not arrive whole")
}

// read reads the whole body, at most most bytes, and puts it into the request. It
// acquires the bytes that it holds from the budget; nil means no budget.
func (b *incoming) read(request *fasthttp.Request, most int, budget *semaphore.Weighted) error {
	limit := int64(most)
	if length := request.Header.ContentLength(); length > most {
		return tooLarge(limit)
	} else if length >= 0 {
		most = length
	}
	b.from = budget
	stream := request.BodyStream()
	var text []byte
	for {
		if len(text) > most {
			return tooLarge(limit)
		}
		if len(text) == cap(text) {
			size := min(max(2*cap(text), 2*smallBody), most+1) // one more byte, to detect a longer body
			if !b.hold(size - cap(text)) {
				return errBodies
			}
			text = append(make([]byte, 0, size), text...)
		}
		n, err := stream.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			if len(text) > most {
				return tooLarge(limit)
			}
			request.SetBodyRaw(text)
			b.whole = true
			return nil
		default:
			return notArrived(err)
		}
	}
}

func (b *incoming) hold(bytes int) bool {
	if b.from == nil {
		return true
	}
	if !b.from.TryAcquire(int64(bytes)) {
		return false
	}
	b.held += int64(bytes)
	return true
}

// release returns the body's bytes to the budget.
func (b *incoming) release() {
	if b.held > 0 {
		b.from.Release(b.held)
	}
	if b.renewed != nil {
		b.renewed()
	}
}
