package core

import (
	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/events"
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
	live, err := a.Grants.Live(httpapi.Context(c), caller.Owner)
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
	if err := a.Grants.End(httpapi.Context(c), caller.Owner, caller.Credential, httpapi.Param(c, "id")); err != nil {
		return err
	}
	return c.JSON(fiber.Map{"ok": true})
}
