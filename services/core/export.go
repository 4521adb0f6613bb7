package core

import (
	"github.com/go-json-experiment/json"
	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/services/httpapi"
	"github.com/memory-ledger/ledger/services/memory"
)

// exportLog answers with the owner's whole log, as lines that can be verified without
// the service.
func (a *API) exportLog(c *fiber.Ctx) error {
	caller, err := a.readingCaller(c)
	if err == nil {
		err = caller.RequireWhole()
	}
	if err != nil {
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
	return httpapi.StreamLines(c, all, all.AppendLine, string(first), string(last))
}
