package httpapi

import (
	"net/url"
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
