package connect

import "github.com/gofiber/fiber/v2"

// Page serves the sign-in page.
func Page(apiURL string) fiber.Handler {
	return func(c *fiber.Ctx) error {
		_, err := ParseCallback(c.Query("callback"))
		return err
	}
}
