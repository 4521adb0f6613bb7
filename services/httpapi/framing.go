package httpapi

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// What is the matter with a request whose end, or whose server, another program
// might see elsewhere. RFC 9112 has them refused.
var (
	errVersion   = BadRequest("request line must end in HTTP/1.1 or HTTP/1.0")
	errTarget    = BadRequest("request line is malformed")
	errHeader    = BadRequest("a header line is malformed")
	errHost      = BadRequest("request must have exactly one valid Host header")
	errLengths   = BadRequest("Content-Length must not be given more than once")
	errEncodings = BadRequest("Transfer-Encoding must be chunked, once, and over HTTP/1.1")
)

// refuseAmbiguous refuses requests that the server reads, but that a proxy before
// it may have read in another way. Whatever follows on the connection may be
// a part of them, so it is not read. Bodies that are announced as too long it
// refuses on the way.
func (a *App) refuseAmbiguous() {
	route := a.Server().Handler
	a.Server().Handler = func(ctx *fasthttp.RequestCtx) {
		closes, err := framing(&ctx.Request.Header)
		if c, ok := ctx.Conn().(*conn); ok && c.answers(&ctx.Request.Header) {
			err = errVersion
		}
		if closes || err != nil {
			ctx.SetConnectionClose()
		}
		if err != nil {
			a.refuseEarly(ctx, err)
			return
		}
		route(ctx)
	}
}

// refuseEarly answers a request that no route may see.
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

// framing looks at a request as it was sent. closes: it may be answered, but
// nothing after it on its connection.
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
	return framingOf(header.RawHeaders(), http11)
}

// framingOf is framing for the header lines. They are what arrived, but for one
// case: where a line is folded into nothing but spaces, the server joins it with
// the one before, moving all that it has read, and may then start over. What
// that leaves is a space at the end of the line, and, where the bytes were moved
// from, some of them twice. So after such a line nothing more is run.
func framingOf(raw []byte, http11 bool) (closes bool, err error) {
	var hosts, lengths, encodings int
	long := false
	for len(raw) > 0 {
		end := bytes.IndexByte(raw, '\n')
		if end < 0 {
			return false, errHeader
		}
		line := raw[:end]
		raw = raw[end+1:]
		if end > 0 && line[end-1] == '\r' {
			line = line[:end-1]
		}
		if len(line) == 0 {
			break
		}
		colon := 0
		for colon < len(line) && inName[line[colon]] {
			colon++
		}
		// That a line goes on from the one before it shows here, too.
		if colon == 0 || colon == len(line) || line[colon] != ':' {
			return false, errHeader
		}
		value := line[colon+1:]
		if bytes.IndexByte(value, '\r') >= 0 || bytes.IndexByte(value, 0) >= 0 {
			return false, errHeader
		}
		closes = closes || line[len(line)-1] == ' '
		switch {
		case colon == len("host") && isName(line[:colon], "host"):
			if hosts++; !isHost(bytes.Trim(value, " \t")) {
				return false, errHost
			}
		case colon == len("content-length") && isName(line[:colon], "content-length"):
			lengths++
			long = long || isLong(bytes.Trim(value, " \t"))
		case colon == len("transfer-encoding") && isName(line[:colon], "transfer-encoding"):
			if encodings++; !isName(bytes.Trim(value, " \t"), "chunked") {
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
		return false, fiber.ErrRequestEntityTooLarge
	}
	return closes || (lengths > 0 && encodings > 0), nil
}

// inName holds the characters of a header's name, inHost those of a host and its
// port.
var inName, inHost = alphabet("!#$%&'*+-.^_`|~"), alphabet("-._~%!$&'()*+,;=:[]")

// alphabet is letters, digits and more.
func alphabet(more string) (in [256]bool) {
	for c := range in {
		in[c] = c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' && c < 0x80
	}
	for _, c := range []byte(more) {
		in[c] = true
	}
	return in
}

// isName compares a name with one in lower case.
func isName(name []byte, lower string) bool {
	if len(name) != len(lower) {
		return false
	}
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// isLong reports whether a length is more than MaxBody. The server's own reading of
// it takes some numbers beyond 64 bits for small ones.
func isLong(length []byte) bool {
	for _, c := range length {
		if c < '0' || c > '9' {
			return false // which the server refuses
		}
	}
	length = bytes.TrimLeft(length, "0")
	const most = "1048576" // MaxBody
	return len(length) > len(most) || len(length) == len(most) && string(length) > most
}

// skipLong has the server wait for nothing of a body that is refused for its length.
func skipLong(header *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if header.ContentLength() > MaxBody {
		header.SetContentLength(0)
	}
	return fasthttp.RequestConfig{}
}

// isHost reports whether a host, with or without a port, is made of what hosts
// are made of. It may be empty, for a target that has none.
func isHost(value []byte) bool {
	for _, c := range value {
		if !inHost[c] {
			return false
		}
	}
	return true
}

// beginning is what a connection remembers of the request that it reads: the
// server takes a request line without a version for one of HTTP/1.0, and keeps
// nothing that would tell them apart.
type beginning struct {
	read        bool   // something was read since the last request
	versionless string // the first line of that, if it has no version
}

// see looks at the first bytes that came after the last request.
func (b *beginning) see(read []byte) {
	if b.read || len(read) == 0 {
		return
	}
	b.read = true
	line, _, _ := bytes.Cut(bytes.TrimLeft(read, "\r\n"), []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	if bytes.Count(line, []byte(" ")) == 1 {
		b.versionless = string(line)
	}
}

// answers reports whether the request that is answered now has no version in its
// request line. Of requests sent ahead only the first is known well enough.
func (b *beginning) answers(header *fasthttp.RequestHeader) bool {
	line := b.versionless
	*b = beginning{}
	return line != "" && !header.IsHTTP11() && line == string(header.Method())+" "+string(header.RequestURI())
}
