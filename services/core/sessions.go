package core

import (
	"errors"

	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/readmodel/sessions"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/httpapi"
)

// sessionView is a session without its token. The id is not a credential.
type sessionView struct {
	ID        string           `json:"id"`
	API       events.Audience  `json:"api"`
	CreatedAt events.Timestamp `json:"createdAt"`
	ExpiresAt events.Timestamp `json:"expiresAt"`
	Current   bool             `json:"current"` // this session sent the request
}

// listSessions answers with the owner's live sessions of both APIs, oldest first. An
// owner has at most command.MaxSessions sessions of each API.
func (a *API) listSessions(c *fiber.Ctx, caller access.Caller) error {
	live, err := sessions.Active(httpapi.Context(c), a.Query, caller.Owner, a.Now())
	if err != nil {
		return err
	}
	views := make([]sessionView, len(live))
	for i, s := range live {
		views[i] = sessionView{s.ID, s.Audience, s.IssuedAt, s.ExpiresAt, s.ID == caller.Credential.ID}
	}
	return c.JSON(views)
}

func (a *API) endSession(c *fiber.Ctx, caller access.Caller) error {
	ctx, id := httpapi.Context(c), httpapi.Param(c, "id")
	err := a.Commands.Execute(ctx, caller.Owner, &command.EndSession{SessionID: id, Credential: caller.Credential})
	if errors.Is(err, command.ErrSessionUnknown) {
		// The session is not live. If it ended earlier, answer as if it ended now.
		if _, known, lookup := sessions.ByID(ctx, a.Query, caller.Owner, id); known || lookup != nil {
			err = lookup
		}
	}
	if err != nil {
		return err
	}
	return c.JSON(fiber.Map{"ok": true})
}

// endOtherSessions ends all of the owner's sessions except the session of the request.
func (a *API) endOtherSessions(c *fiber.Ctx, caller access.Caller) error {
	end := &command.EndAccess{Kind: events.KindSession, Except: caller.Credential.ID, Credential: caller.Credential}
	if err := a.Commands.Execute(httpapi.Context(c), caller.Owner, end); err != nil {
		return err
	}
	return c.JSON(fiber.Map{"ok": true, "ended": end.Ended})
}
