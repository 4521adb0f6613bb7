package httpapi

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/utils"
)

// Authorization returns the Authorization header. It returns "" if the request has two: a
// proxy in front of the service may have checked the other one.
func Authorization(c *fiber.Ctx) string {
	if len(c.Request().Header.PeekAll(fiber.HeaderAuthorization)) > 1 {
		return ""
	}
	return c.Get(fiber.HeaderAuthorization)
}

// Param returns a parameter of the path. It returns "", which names nothing, if the
// escapes are broken or unescaping gives a slash. Routes are found by the path as it was
// sent, because gateways have rules for that path.
func Param(c *fiber.Ctx, name string) string {
	sent := c.Params(name)
	if !strings.ContainsRune(sent, '%') {
		return utils.CopyString(sent)
	}
	value, err := url.PathUnescape(sent)
	if err != nil || strings.ContainsRune(value, '/') {
		return ""
	}
	return value
}

// Query returns a parameter of the query, and whether it was given. A repeated parameter
// is refused, because it is unclear which value was meant.
func Query(c *fiber.Ctx, name string) (value string, given bool, err error) {
	values := c.Context().QueryArgs().PeekMulti(name)
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
		return string(values[0]), true, nil
	}
	return "", false, BadRequest(name + " must not be given more than once")
}

// WantsPage reports whether the request comes from a browser that navigates: it prefers
// HTML to the other types that are served.
func WantsPage(c *fiber.Ctx) bool {
	return c.Accepts("text/markdown", fiber.MIMEApplicationJSON, fiber.MIMETextPlain, fiber.MIMETextHTML) == fiber.MIMETextHTML
}

// Number reads a whole number that is not negative, in JSON's one form for it: no sign,
// no leading zeros, no surrounding space.
func Number(text string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return n, err == nil && strconv.FormatUint(n, 10) == text
}

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
	for name, value := range c.Request().Header.All() {
		request.Header.Add(string(name), string(value))
	}
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

type kept struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *kept) Header() http.Header { return k.header }

func (k *kept) WriteHeader(status int) {
	if k.status == 0 {
		k.status = status
	}
}

func (k *kept) Write(p []byte) (int, error) {
	k.WriteHeader(http.StatusOK)
	return k.body.Write(p)
}

// Flush implements http.Flusher. It does nothing: the answer is sent when it is complete.
func (k *kept) Flush() {}

const (
	preflightSeconds = "600"
	// readHeaders are the request headers that a page may send.
	readHeaders = "Authorization, Content-Type, Idempotency-Key, X-Request-Id"
)

// CORS says which pages of other origins may call an API. Browsers add no credential by
// themselves: the page that holds a token sends it.
type CORS struct {
	// Allows must compare the whole origin: one that only looks like an allowed origin is
	// a different origin.
	Allows  func(c *fiber.Ctx, origin string) bool
	Methods string // methods that a page may use, comma-separated
	Exposed string // response headers that a page may read, beside the default ones
	Sent    string // request headers that a page may send, beside readHeaders; may be empty
}

// AllowOrigins adds CORS to the routes added after it.
func (a *App) AllowOrigins(cors CORS) {
	a.Use(cors.handle)
	a.Early = func(c *fiber.Ctx) { cors.mark(c) }
}

// AllowAllOrigins adds CORS to these paths, for pages of any origin. Their answers say nothing
// to a page that it could not ask for without a browser. Call it before AllowOrigins.
func (a *App) AllowAllOrigins(paths ...string) {
	cors := CORS{Allows: func(_ *fiber.Ctx, origin string) bool { return origin != "" }, Methods: "GET, POST", Exposed: "Retry-After, WWW-Authenticate, X-Request-Id", Sent: "Last-Event-ID, Mcp-Method, Mcp-Name, Mcp-Protocol-Version"}
	for _, path := range paths {
		a.Use(path, cors.handle)
	}
}

func (cors CORS) handle(c *fiber.Ctx) error {
	allowed := cors.mark(c)
	if c.Method() != http.MethodOptions || c.Get(fiber.HeaderAccessControlRequestMethod) == "" { // no preflight
		return c.Next()
	}
	if !allowed {
		return Refuse(http.StatusForbidden, "origin is not allowed")
	}
	c.Vary(fiber.HeaderAccessControlRequestMethod, fiber.HeaderAccessControlRequestHeaders)
	c.Set(fiber.HeaderAccessControlAllowMethods, cors.Methods)
	headers := readHeaders
	if cors.Sent != "" {
		headers += ", " + cors.Sent
	}
	c.Set(fiber.HeaderAccessControlAllowHeaders, headers)
	c.Set(fiber.HeaderAccessControlMaxAge, preflightSeconds)
	return c.SendStatus(http.StatusNoContent)
}

// mark lets the request's origin, if allowed, read the answer, whatever the answer is.
func (cors CORS) mark(c *fiber.Ctx) bool {
	c.Vary(fiber.HeaderOrigin)
	origin := utils.CopyString(c.Get(fiber.HeaderOrigin))
	if !cors.Allows(c, origin) {
		return false
	}
	c.Set(fiber.HeaderAccessControlAllowOrigin, origin)
	c.Set(fiber.HeaderAccessControlExposeHeaders, cors.Exposed)
	return true
}
