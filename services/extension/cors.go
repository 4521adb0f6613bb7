package extension

import (
	"net/http"
	"slices"

	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/services/connect"
	"github.com/memory-ledger/ledger/services/door"
)

const preflightSeconds = "600"

// cors lets browser extensions and the allowlist call the API from a page.
// The origin is compared whole: look-alikes are other origins.
func (a *API) cors(c *fiber.Ctx) error {
	c.Vary(fiber.HeaderOrigin)
	origin := c.Get(fiber.HeaderOrigin)
	if origin == "" || !a.allowed(origin) {
		if isPreflight(c) {
			return door.Refuse(http.StatusForbidden, "this origin may not call the API from a page")
		}
		return c.Next()
	}
	c.Set(fiber.HeaderAccessControlAllowOrigin, origin)
	c.Set(fiber.HeaderAccessControlExposeHeaders, "Retry-After, WWW-Authenticate, X-Request-Id")
	if !isPreflight(c) {
		return c.Next()
	}
	c.Vary(fiber.HeaderAccessControlRequestMethod, fiber.HeaderAccessControlRequestHeaders)
	c.Set(fiber.HeaderAccessControlAllowMethods, "GET, POST")
	c.Set(fiber.HeaderAccessControlAllowHeaders, "Authorization, Content-Type, Idempotency-Key, X-Request-Id")
	c.Set(fiber.HeaderAccessControlMaxAge, preflightSeconds)
	return c.SendStatus(http.StatusNoContent)
}

func isPreflight(c *fiber.Ctx) bool {
	return c.Method() == http.MethodOptions && c.Get(fiber.HeaderAccessControlRequestMethod) != ""
}

func (a *API) allowed(origin string) bool {
	return connect.IsExtensionOrigin(origin) || slices.Contains(a.AllowedOrigins, origin)
}
