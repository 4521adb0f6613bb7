package core

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/httpapi"
	"github.com/memory-ledger/ledger/services/memory"
	"github.com/memory-ledger/ledger/services/signin"
)

// exportLog answers with the owner's whole log, as lines that can be verified without
// the service.
func (a *API) exportLog(c *fiber.Ctx, caller access.Caller) error {
	if err := caller.RequireWhole(); err != nil {
		return err
	}
	all, err := a.Memories.Export(httpapi.Context(c), readerOf(caller), httpapi.Gone(c))
	if err != nil {
		return err
	}
	first, err := json.Marshal(all.Header)
	if err != nil {
		return err
	}
	last, err := json.Marshal(memory.ExportEnd{Complete: true, Leaves: all.Header.TreeSize})
	if err != nil {
		return err
	}
	return httpapi.StreamLines(c, all, all.Line, string(first), string(last))
}

// eraseOwner erases all texts of the owner whose wallet has signed the challenge for an
// erasure. The route needs no session, and a session alone is not enough. A request with a
// key for some namespaces can't mean all of them.
func (a *API) eraseOwner(c *fiber.Ctx) error {
	if caller, err := a.Access.Read(httpapi.Context(c), httpapi.Authorization(c)); err == nil {
		if err := caller.RequireWhole(); err != nil {
			return err
		}
	}
	answer, err := httpapi.SignedChallenge(c)
	if err != nil {
		return err
	}
	var erased uint64
	err = a.Desk.Confirm(httpapi.Context(c), signin.PurposeErase, answer, func(ctx context.Context) (err error) {
		erased, err = a.Memories.Erase(ctx, answer.PublicKey)
		return err
	})
	return httpapi.Answered(c, fiber.Map{"ok": true, "erased": erased}, err)
}

// importLog adds the leaves of an export of the owner's log at another place, or goes on with
// an import that broke off.
func (a *API) importLog(c *fiber.Ctx, caller access.Caller) error {
	ctx, export, err := httpapi.Arriving(c)
	if err != nil {
		return err
	}
	done, err := a.Memories.Import(ctx, readerOf(caller), caller.Credential, export)
	return httpapi.Answered(c, done, err)
}

// giveUpImport ends an import that broke off.
func (a *API) giveUpImport(c *fiber.Ctx, caller access.Caller) error {
	return httpapi.Done(c, a.Memories.GiveUpImport(httpapi.Context(c), caller.Owner, caller.Credential))
}
