package httpapi

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// Adapt answers with a net/http handler. The handler gets the whole body, bounded as in
// [Body], and the request's context. It does not get the credential. If the handler
// refuses in plain text, the refusal takes the form of the API's errors.
//
// The answer is kept in memory until it is complete, so it must be short.
func Adapt(c *fiber.Ctx, handler http.Handler) error {
	body, err := Body(c)
	if err == nil {
		err = contentEncoding(c)
	}
	if err != nil {
		return err
	}
	ctx := Context(c)
	// The handler may start goroutines that outlive the request. The request's buffers
	// are reused, so copy everything.
	request, err := http.NewRequestWithContext(ctx, strings.Clone(c.Method()), strings.Clone(c.OriginalURL()), bytes.NewReader(slices.Clone(body)))
	if err != nil {
		return BadRequest("request target is malformed")
	}
	request.Host = string(c.Request().Header.Host())
	c.Request().Header.VisitAll(func(name, value []byte) { request.Header.Add(string(name), string(value)) })
	request.Header.Del(fiber.HeaderAuthorization)
	answer := &kept{header: http.Header{}}
	handler.ServeHTTP(answer, request)
	kind := answer.header.Get(fiber.HeaderContentType)
	switch {
	case answer.status == 0 && ctx.Err() != nil:
		return ctx.Err()
	case answer.status == 0:
		return errUnanswered
	case answer.status >= http.StatusBadRequest && strings.HasPrefix(kind, fiber.MIMETextPlain):
		return Refuse(answer.status, strings.TrimSpace(answer.body.String()))
	case kind != "":
		c.Set(fiber.HeaderContentType, kind)
	}
	return c.Status(answer.status).Send(answer.body.Bytes())
}

// errUnanswered matches no row of the table and so becomes a 500.
var errUnanswered = errors.New("the handler gave no answer")

// kept is an answer in memory.
type kept struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (k *kept) Header() http.Header { return k.header }

// WriteHeader implements http.ResponseWriter.
func (k *kept) WriteHeader(status int) {
	if k.status == 0 {
		k.status = status
	}
}

// Write implements http.ResponseWriter.
func (k *kept) Write(p []byte) (int, error) {
	k.WriteHeader(http.StatusOK)
	return k.body.Write(p)
}

// Flush implements http.Flusher. It does nothing: the answer is sent when it is complete.
func (k *kept) Flush() {}
