package httpapi

import (
	"net/http"

	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/services/access"
)

// Writing is the handler of a request that ends in a command. It authenticates the caller
// from the remembered credential, and do carries the credential into the command. If do
// refuses the request with a status below 500, the credential is checked before the
// refusal is sent. So a dead credential gets the same 401 with a good body as with a bad
// one.
func Writing(authenticator *access.Authenticator, do func(*fiber.Ctx, access.Caller) error) fiber.Handler {
	return func(c *fiber.Ctx) error {
		caller, err := authenticator.Write(Context(c), Authorization(c))
		if err != nil {
			return err
		}
		refusal := do(c, caller)
		if refusal == nil {
			return nil
		}
		if status, _ := Answer(refusal); status >= http.StatusInternalServerError {
			return refusal // the client must learn that the write may have been stored
		}
		if err := authenticator.StillAlive(Context(c), caller); err != nil {
			return err
		}
		return refusal
	}
}
