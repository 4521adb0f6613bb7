package core

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/services/httpapi"
	"github.com/memory-ledger/ledger/services/signin"
)

// eraseOwner erases all texts of the owner whose wallet has signed the challenge for an
// erasure. The route needs no session, and a session alone is not enough.
func (a *API) eraseOwner(c *fiber.Ctx) error {
	answer, err := httpapi.SignedChallenge(c, signin.ParseSignatureText)
	if err != nil {
		return err
	}
	var erased uint64
	err = a.Desk.Confirm(httpapi.Context(c), signin.PurposeErase, answer, func(ctx context.Context) (err error) {
		erased, err = a.Memories.Erase(ctx, answer.PublicKey)
		return err
	})
	if err != nil {
		return err
	}
	return c.JSON(fiber.Map{"ok": true, "erased": erased})
}
