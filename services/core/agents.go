package core

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/services/httpapi"
)

// metadataPath is where a client that was refused finds out how to get in (RFC 9728).
const metadataPath = "/.well-known/oauth-protected-resource"

// serveAgent answers one request of the Model Context Protocol. The caller is known
// before the body is read.
func (a *API) serveAgent(c *fiber.Ctx) error {
	if !a.mayCallTools(c.Get(fiber.HeaderOrigin)) {
		return httpapi.Refuse(http.StatusForbidden, "origin is not allowed")
	}
	caller, err := a.Access.Read(httpapi.Context(c), httpapi.Authorization(c))
	if err != nil {
		c.Set(fiber.HeaderWWWAuthenticate, `Bearer resource_metadata="`+a.BaseURL+metadataPath+`/mcp"`)
		return err
	}
	a.uses.note(caller)
	return httpapi.Adapt(c, a.Agents.For(caller, httpapi.Gone(c)))
}

// mayCallTools refuses pages of other sites, as the protocol asks of servers: a name that
// a site has rebound to this address does not get past its origin. Programs send none.
func (a *API) mayCallTools(origin string) bool {
	if origin == "" || slices.Contains(a.AllowedOrigins, origin) {
		return true
	}
	own, err := url.Parse(a.BaseURL)
	return err == nil && origin == own.Scheme+"://"+own.Host
}

// protectedResource says how a resource is opened. There is no authorization server:
// people make API keys, or sign in with a wallet.
type protectedResource struct {
	Resource      string   `json:"resource"`
	Name          string   `json:"resource_name"`
	BearerMethods []string `json:"bearer_methods_supported"`
}

func (a *API) resourceMetadata(of string) fiber.Handler {
	return func(c *fiber.Ctx) error {
		return c.JSON(protectedResource{a.BaseURL + of, "Memory Ledger", []string{"header"}})
	}
}
