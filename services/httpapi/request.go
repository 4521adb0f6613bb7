package httpapi

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/utils"
)

// Authorization returns the header that a credential is in. A request with two
// has none: a proxy in front of the service may have checked the other one.
func Authorization(c *fiber.Ctx) string {
	if len(c.Request().Header.PeekAll(fiber.HeaderAuthorization)) > 1 {
		return ""
	}
	return c.Get(fiber.HeaderAuthorization)
}

// Param returns a parameter of the path. One whose escapes are broken, or that
// holds a slash when they are undone, is empty, which names nothing: routes are
// found by the path as it was sent, the one that gateways have rules for.
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

// Query returns a parameter of the query, and whether it is there. Twice it is
// refused: there is no telling which was meant.
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

// WantsPage reports whether a request is a browser's that navigates: of all that is
// answered, it likes HTML best.
func WantsPage(c *fiber.Ctx) bool {
	return c.Accepts("text/markdown", fiber.MIMEApplicationJSON, fiber.MIMETextPlain, fiber.MIMETextHTML) == fiber.MIMETextHTML
}

// Number reads a whole number that is not negative, in the one form that JSON
// has for it: no sign, no zeros before it, no space around it.
func Number(text string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return n, err == nil && strconv.FormatUint(n, 10) == text
}
