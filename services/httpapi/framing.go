package httpapi

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
	"golang.org/x/net/http/httpguts"

	"github.com/memory-ledger/ledger/services/memory"
)

// Errors of a request that another program might read with a different end, or as for a
// different server. RFC 9112 requires that such requests are refused.
var (
	errVersion   = BadRequest("request line must end in HTTP/1.1 or HTTP/1.0")
	errTarget    = BadRequest("request line is malformed")
	errHeader    = BadRequest("a header line is malformed")
	errHost      = BadRequest("request must have exactly one valid Host header")
	errLengths   = BadRequest("Content-Length must not be given more than once")
	errEncodings = BadRequest("Transfer-Encoding must be chunked, once, and over HTTP/1.1")
)

// handle is called for each request, before the framework routes it. It refuses requests
// that the server can read, but that a proxy in front of it may have read in another way.
// The bytes that follow on the connection may belong to such a request, so they are not
// read. It also refuses a body whose announced length is too large, and every request once
// the service has begun to stop.
func (a *App) handle(ctx *fasthttp.RequestCtx) {
	c, _ := ctx.Conn().(*conn)
	closes, err := framing(&ctx.Request.Header)
	if a.isStopping() {
		err = errStopping
	}
	body := &incoming{app: a, whole: true}
	if err == nil {
		err = body.begin(ctx)
	}
	if err != nil {
		ctx.SetConnectionClose()
		a.refuseEarly(ctx, err)
		return
	}
	ctx.SetUserValue(localBody, body)
	knownMethod(ctx)
	a.route(ctx)
	body.release()
	// If a body is not whole, the bytes that follow are the rest of it, not a request. If
	// another connection waits for a place, this one makes room.
	if closes || !body.whole || a.isStopping() || c != nil && c.of.full.Load() {
		ctx.SetConnectionClose()
	}
}

// refuseEarly answers a request that must not reach a route.
func (a *App) refuseEarly(ctx *fasthttp.RequestCtx, err error) {
	knownMethod(ctx)
	c := a.AcquireCtx(ctx)
	defer a.ReleaseCtx(c)
	if err := a.fail(c, err); err != nil {
		ctx.Error(http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
	}
	status := strconv.Itoa(ctx.Response.StatusCode())
	a.requests.WithLabelValues(string(ctx.Method()), "unknown", status).Observe(time.Since(ctx.Time()).Seconds())
}

// framing checks a request as it was sent. If closes is true, the request may be
// answered, but nothing after it on its connection.
//
// The header lines are the bytes that arrived, with one exception. If a folded line holds
// only spaces, the server joins it with the line before, moves all the bytes that it has
// read, and may then start over. This leaves a space at the end of the line, and some bytes
// twice in the place from which they were moved. So after such a line, no further request is
// run.
func framing(header *fasthttp.RequestHeader) (closes bool, err error) {
	http11 := header.IsHTTP11()
	if !http11 && string(header.Protocol()) != "HTTP/1.0" {
		return false, errVersion
	}
	for _, c := range header.RequestURI() {
		if c <= ' ' || c == 0x7f {
			return false, errTarget
		}
	}
	var hosts, lengths, encodings int
	long := false
	for line := range bytes.Lines(header.RawHeaders()) {
		line, ended := bytes.CutSuffix(line, []byte("\n"))
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.Trim(value, " \t")
		// A line that continues the line before it has no valid name either.
		if !ended || len(name) == len(line) || !httpguts.ValidHeaderFieldName(string(name)) || !httpguts.ValidHeaderFieldValue(string(value)) {
			return false, errHeader
		}
		closes = closes || line[len(line)-1] == ' '
		switch {
		case bytes.EqualFold(name, []byte(fiber.HeaderHost)):
			if hosts++; !httpguts.ValidHostHeader(string(value)) {
				return false, errHost
			}
		case bytes.EqualFold(name, []byte(fiber.HeaderContentLength)):
			lengths++
			// The server's own parser reads some numbers beyond 64 bits as small ones. It refuses
			// what is no number.
			n, _ := strconv.ParseUint(string(value), 10, 64) // the largest, beyond 64 bits
			long = long || n > uint64(longest(header))
		case bytes.EqualFold(name, []byte(fiber.HeaderTransferEncoding)):
			if encodings++; !bytes.EqualFold(value, []byte("chunked")) {
				return false, errEncodings
			}
		}
	}
	switch {
	case hosts > 1 || (hosts == 0 && http11):
		return false, errHost
	case lengths > 1:
		return false, errLengths
	case encodings > 1 || (encodings == 1 && !http11):
		return false, errEncodings
	case long:
		return false, tooLarge(longest(header))
	}
	return closes || (lengths > 0 && encodings > 0), nil
}

// longest returns how long a request's body may be: more than MaxBody only where the route
// reads it as it arrives.
func longest(header *fasthttp.RequestHeader) int64 {
	if header.IsPost() && string(header.RequestURI()) == "/import" {
		return memory.MaxImport
	}
	return MaxBody
}

// skipLong makes the server skip a body that is refused for its length.
func skipLong(header *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if int64(header.ContentLength()) > longest(header) {
		header.SetContentLength(0)
	}
	return fasthttp.RequestConfig{}
}
