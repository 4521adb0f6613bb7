package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/net/http/httpguts"

	"github.com/memory-ledger/ledger/services/memory"
)

// handle is called for each request, before the framework routes it. It refuses requests
// that a proxy in front of the server may have read in another way, as far as the server
// does not; a body whose announced length is too large; and every request once the service
// has begun to stop. The bytes that follow such a request on the connection are not read.
func (a *App) handle(ctx *fasthttp.RequestCtx) {
	c, _ := ctx.Conn().(*conn)
	body := &incoming{app: a, whole: true}
	if err := a.admit(ctx, body); err != nil {
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
	if !body.whole || a.isStopping() || c != nil && c.of.full.Load() {
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

func (a *App) admit(ctx *fasthttp.RequestCtx, body *incoming) error {
	header := &ctx.Request.Header
	switch version := string(header.Protocol()); {
	case a.isStopping():
		return errStopping
	case version != "HTTP/1.1" && version != "HTTP/1.0":
		return BadRequest("request line must end in HTTP/1.1 or HTTP/1.0")
	case !httpguts.ValidHostHeader(string(header.Host())):
		return BadRequest("request must have one valid Host header")
	}
	return body.begin(ctx)
}

// longest returns how long a request's body may be: more than MaxBody only where the route
// reads it as it arrives.
func longest(header *fasthttp.RequestHeader) int64 {
	if header.IsPost() && string(header.RequestURI()) == "/import" {
		return memory.MaxImport
	}
	return MaxBody
}
