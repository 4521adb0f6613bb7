package extension

import (
	"net/http"
	"slices"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/utils"

	"github.com/memory-ledger/ledger/services/connect"
	"github.com/memory-ledger/ledger/services/door"
)

const preflightSeconds = "600"

// cors lets browser extensions and the allowlist call the API from a page.
// Credentials stay out of it: a token is sent by those who hold it, never by
// a browser on its own.
func (a *API) cors(c *fiber.Ctx) error {
	allowed := a.allowOrigin(c)
	if !isPreflight(c) {
		return c.Next()
	}
	if !allowed {
		return door.Refuse(http.StatusForbidden, "origin is not allowed")
	}
	c.Vary(fiber.HeaderAccessControlRequestMethod, fiber.HeaderAccessControlRequestHeaders)
	c.Set(fiber.HeaderAccessControlAllowMethods, "GET, POST")
	c.Set(fiber.HeaderAccessControlAllowHeaders, "Authorization, Content-Type, Idempotency-Key, X-Request-Id")
	c.Set(fiber.HeaderAccessControlMaxAge, preflightSeconds)
	return c.SendStatus(http.StatusNoContent)
}

// allowOrigin marks the answer, whatever it will be, as readable by the origin
// that asks, if it may. The origin is compared whole: look-alikes are other
// origins.
func (a *API) allowOrigin(c *fiber.Ctx) bool {
	c.Vary(fiber.HeaderOrigin)
	origin := utils.CopyString(c.Get(fiber.HeaderOrigin))
	if !connect.IsExtensionOrigin(origin) && !slices.Contains(a.AllowedOrigins, origin) {
		return false
	}
	c.Set(fiber.HeaderAccessControlAllowOrigin, origin)
	c.Set(fiber.HeaderAccessControlExposeHeaders, "Retry-After, WWW-Authenticate, X-Request-Id")
	return true
}

func isPreflight(c *fiber.Ctx) bool {
	return c.Method() == http.MethodOptions && c.Get(fiber.HeaderAccessControlRequestMethod) != ""
}
