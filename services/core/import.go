package core

import (
	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/httpapi"
)

// importLog adds the leaves of an export of the owner's log at another place, or goes on with
// an import that broke off.
func (a *API) importLog(c *fiber.Ctx, caller access.Caller) error {
	ctx, export, err := httpapi.Arriving(c)
	if err != nil {
		return err
	}
	done, err := a.Memories.Import(ctx, readerOf(caller), caller.Credential, export)
	if err != nil {
		return err
	}
	return c.JSON(done)
}

// giveUpImport ends an import that broke off.
func (a *API) giveUpImport(c *fiber.Ctx, caller access.Caller) error {
	if err := a.Memories.GiveUpImport(httpapi.Context(c), caller.Owner, caller.Credential); err != nil {
		return err
	}
	return c.JSON(fiber.Map{"ok": true})
}
