package core

import (
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/readmodel/grants"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/httpapi"
)

// grantView is a live grant without its token. The id is not a credential.
type grantView struct {
	ID            string           `json:"id"`
	Kind          string           `json:"kind"`
	By            *events.Via      `json:"by"`        // null if the event does not say
	Namespace     *string          `json:"namespace"` // null for no limit
	CreatedAt     events.Timestamp `json:"createdAt"`
	ExpiresAt     events.Timestamp `json:"expiresAt"`
	MaxUses       int              `json:"maxUses"`
	RemainingUses int              `json:"remainingUses"`
}

// grantKinds are the names of the kinds in answers.
var grantKinds = map[events.GrantKind]string{events.GrantCase: "agent-case", events.GrantDrop: "memory-drop"}

// listGrants answers with the owner's live grants, oldest first. An owner has at most one
// of each kind.
func (a *API) listGrants(c *fiber.Ctx, caller access.Caller) error {
	live, err := grants.Active(httpapi.Context(c), a.Query, caller.Owner, a.Now())
	if err != nil {
		return err
	}
	views := make([]grantView, len(live))
	for i, g := range live {
		views[i] = grantView{g.ID, grantKinds[g.Kind], g.By, nil, g.MintedAt, g.ExpiresAt, g.MaxUses, g.MaxUses - g.Used}
		if g.Namespace != "" {
			views[i].Namespace = &g.Namespace
		}
	}
	return c.JSON(views)
}

// endGrant ends a grant. It answers alike for a grant that has ended before.
func (a *API) endGrant(c *fiber.Ctx, caller access.Caller) error {
	_, err := a.Grants.Revoke(httpapi.Context(c), caller.Owner, caller.Credential, "", httpapi.Param(c, "id"))
	return httpapi.Done(c, err)
}

// metadataPath is the path at which a refused client finds how to authenticate (RFC
// 9728).
const metadataPath = "/.well-known/oauth-protected-resource"

// serveAgent answers one request of the Model Context Protocol. It authenticates the
// caller before it reads the body.
func (a *API) serveAgent(c *fiber.Ctx) error {
	if !a.mayCallTools(c.Get(fiber.HeaderOrigin)) {
		return httpapi.Refuse(http.StatusForbidden, "origin is not allowed")
	}
	caller, err := a.Access.Read(httpapi.Context(c), httpapi.Authorization(c))
	if err != nil {
		c.Set(fiber.HeaderWWWAuthenticate, `Bearer resource_metadata="`+a.BaseURL+metadataPath+`/mcp"`)
		if errors.Is(err, access.ErrUnauthenticated) {
			return httpapi.Refuse(http.StatusUnauthorized, "missing or invalid credential: connect by OAuth, or make an API key at "+a.BaseURL+`/app/#access and send it as "Authorization: Bearer svc_…"`)
		}
		return err
	}
	a.uses.note(caller)
	return httpapi.Adapt(c, a.Agents.For(caller, httpapi.Gone(c)))
}

// mayCallTools refuses pages of other sites, as the protocol requires of servers. This
// check of the origin also stops a site that rebinds its DNS name to this address.
// Programs send no origin.
func (a *API) mayCallTools(origin string) bool {
	if origin == "" || slices.Contains(a.AllowedOrigins, origin) {
		return true
	}
	own, err := url.Parse(a.BaseURL)
	return err == nil && origin == own.Scheme+"://"+own.Host
}

// resourceMetadata tells a client how to authenticate for a resource (RFC 9728).
func (a *API) resourceMetadata(of string) fiber.Handler {
	return func(c *fiber.Ctx) error {
		return c.JSON(fiber.Map{
			"resource":                 a.BaseURL + of,
			"resource_name":            "Memory Ledger",
			"authorization_servers":    []string{a.BaseURL},
			"scopes_supported":         []events.Scope{events.ScopeRead, events.ScopeWrite},
			"bearer_methods_supported": []string{"header"},
		})
	}
}
