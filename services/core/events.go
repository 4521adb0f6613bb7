package core

import (
	"context"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/feed"
	"github.com/memory-ledger/ledger/services/httpapi"
)

// lastEventID is the header in which a reconnecting client names its last message.
const lastEventID = "Last-Event-ID"

// listEvents answers with a page of the owner's history, or with a stream.
func (a *API) listEvents(app *httpapi.App) fiber.Handler {
	authenticated := a.scoped(events.ScopeRead, func(c *fiber.Ctx, caller access.Caller) error {
		if err := caller.RequireWhole(); err != nil {
			return err
		}
		after, given, err := afterOf(c)
		if err != nil {
			return err
		}
		limit, _, err := limitOf(c, 100)
		if err != nil {
			return err
		}
		if httpapi.WantsEventStream(c) {
			return a.streamEvents(c, app, caller, after, given, limit)
		}
		page, err := a.Feed.Page(httpapi.Context(c), caller.Owner, after, limit)
		if err != nil {
			return err
		}
		if page.Empty() {
			if err := a.Feed.Gave(httpapi.Context(c), after); err != nil {
				return err
			}
		}
		if err := show(&page, caller); err != nil {
			return err
		}
		c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
		return c.Send(page.AppendJSON(nil))
	})
	return func(c *fiber.Ctx) error {
		c.Vary(fiber.HeaderAccept)
		return authenticated(c)
	}
}

func (a *API) streamEvents(c *fiber.Ctx, app *httpapi.App, caller access.Caller, after uint64, given bool, limit int) (err error) {
	if given {
		err = a.Feed.Gave(httpapi.Context(c), after)
	} else {
		after, err = a.Feed.End(httpapi.Context(c), caller.Owner)
	}
	if err != nil {
		return err
	}
	follower, err := a.Feed.Follow(caller.Owner, after, limit)
	if err != nil {
		return err
	}
	authorization := strings.Clone(httpapi.Authorization(c))
	return app.StreamEvents(c, after, httpapi.Source{
		Follower: follower, Expires: caller.Expires,
		Show: func(page *feed.Page) error { return show(page, caller) },
		// It fails for a revoked key, an expired session, and a credential that can't be looked
		// up, so that the stream ends.
		Check: func(ctx context.Context) error {
			_, err := a.Access.Read(ctx, authorization)
			return err
		},
	})
}

// afterOf returns the cursor at which the answer begins. A reconnecting client repeats
// its old query, so its header wins over the query.
func afterOf(c *fiber.Ctx) (after uint64, given bool, err error) {
	from := "after"
	text, given, err := httpapi.Query(c, from)
	if err != nil {
		return 0, false, err
	}
	if last := c.Get(lastEventID); last != "" && httpapi.WantsEventStream(c) {
		from, text, given = lastEventID, last, true
	}
	if !given {
		return 0, false, nil
	}
	after, ok := httpapi.Number(text)
	if !ok {
		return 0, false, httpapi.BadRequest(from + " is not a cursor that this API gave out")
	}
	return after, true, nil
}

// limitOf reads the query parameter limit.
func limitOf(c *fiber.Ctx, otherwise int) (limit int, given bool, err error) {
	text, given, err := httpapi.Query(c, "limit")
	if err != nil || !given {
		return otherwise, false, err
	}
	n, ok := httpapi.Number(text)
	if !ok || n < 1 || n > httpapi.MaxPage {
		return 0, true, httpapi.BadRequest("limit must be an integer from 1 to 1000")
	}
	return int(n), true, nil
}

// show removes what only a session may see: routes tell a key neither the labels of keys
// nor the ids of sessions.
func show(page *feed.Page, caller access.Caller) error {
	if caller.Credential.Kind == command.CredentialKey {
		return page.HideAccess()
	}
	return nil
}
