package httpapi

import (
	"net/http"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/utils"
)

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
	Allows  func(origin string) bool
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
	cors := CORS{Allows: func(origin string) bool { return origin != "" }, Methods: "GET, POST", Exposed: "Retry-After, WWW-Authenticate, X-Request-Id", Sent: "Last-Event-ID, Mcp-Method, Mcp-Name, Mcp-Protocol-Version"}
	for _, path := range paths {
		a.Use(path, cors.handle)
	}
}

func (cors CORS) handle(c *fiber.Ctx) error {
	allowed := cors.mark(c)
	if !isPreflight(c) {
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
	if !cors.Allows(origin) {
		return false
	}
	c.Set(fiber.HeaderAccessControlAllowOrigin, origin)
	c.Set(fiber.HeaderAccessControlExposeHeaders, cors.Exposed)
	return true
}

func isPreflight(c *fiber.Ctx) bool {
	return c.Method() == http.MethodOptions && c.Get(fiber.HeaderAccessControlRequestMethod) != ""
}
