// Package core is the core API, for SDKs, dashboards and API keys.
package core

import (
	"cmp"
	_ "embed"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/dashboard"
	"github.com/memory-ledger/ledger/services/feed"
	"github.com/memory-ledger/ledger/services/grant"
	"github.com/memory-ledger/ledger/services/httpapi"
	"github.com/memory-ledger/ledger/services/httpapi/connect"
	"github.com/memory-ledger/ledger/services/mcp"
	"github.com/memory-ledger/ledger/services/memory"
	"github.com/memory-ledger/ledger/services/oauth"
	"github.com/memory-ledger/ledger/services/quota"
	"github.com/memory-ledger/ledger/services/signin"
)

// API holds the dependencies of the routes.
type API struct {
	Access   *access.Authenticator
	Desk     *signin.SignIn
	Memories *memory.Service
	Commands *command.Executor
	Query    schema.Querier
	Staking  Staking // nil: dormant
	Agents   *mcp.Server
	Apps     *oauth.Server
	Grants   *grant.Service
	Feed     *feed.Feed
	Quotas   *quota.Quotas // of keys and searches; nil: no quotas
	BaseURL  string        // public URL, without a slash at the end
	// AllowedOrigins are the origins whose pages may call the API.
	AllowedOrigins []string
	Dashboard      dashboard.Config
	Now            func() time.Time
	NewID          func() string

	uses keyUses
}

func (a *API) Mount(app *httpapi.App) {
	app.AllowAllOrigins(serverMetadataPath, metadataPath, "/oauth/register", "/oauth/token", "/oauth/revoke")
	app.AllowOrigins(httpapi.CORS{
		Allows:  a.allows,
		Methods: "DELETE, GET, POST", Exposed: "Damaged, Link, Matched, Next-Cursor, Retry-After, WWW-Authenticate, X-Request-Id",
		Sent: "Last-Event-ID, Mcp-Method, Mcp-Name, Mcp-Protocol-Version",
	})
	app.Page = consentFails
	app.Health("memory-ledger-core")
	dashboard.Mount(app, a.Dashboard)
	app.SignIn(a.Desk, false)
	app.Post("/erasure", a.eraseOwner)
	app.Get("/auth/sessions", a.owning(a.listSessions))
	app.Delete("/auth/sessions", a.owning(a.endOtherSessions))
	app.Delete("/auth/sessions/:id", a.owning(a.endSession))

	app.Post("/memories", httpapi.Writing(a.Access, a.writeMemory))
	app.Post("/memories/batch", httpapi.Writing(a.Access, a.writeBatch))
	app.Get("/memories", app.Compressed(a.reading(a.listMemories)))
	app.Post("/memories/search", app.Compressed(a.reading(a.searchMemories)))
	app.Get("/memories/:id/proof", a.reading(a.proveMemory))
	app.Get("/memories/:id/receipt", a.reading(a.receiptOfMemory))
	app.Get("/memories/:id", a.reading(a.getMemory))
	app.Delete("/memories/:id", a.scoped(events.ScopeRetract, bare(a.retractMemory)))
	app.Post("/memories/:id/forget", a.owning(bare(a.forgetMemory)))
	app.Get("/log", a.reading(a.logHead))
	app.Get("/log/consistency", a.reading(a.logConsistency))

	app.Get("/export", app.Compressed(a.scoped(events.ScopeRead, a.exportLog)))
	app.Post("/import", a.owning(a.importLog))
	app.Delete("/import", a.owning(bare(a.giveUpImport)))
	app.Get("/events", a.listEvents(app))

	app.Post("/keys", a.owning(a.createKey))
	app.Get("/keys", a.owning(a.listKeys))
	app.Delete("/keys/:id", a.owning(bare(a.revokeKey)))

	app.Get("/grants", a.owning(a.listGrants))
	app.Delete("/grants/:id", a.owning(bare(a.endGrant)))

	app.Post("/mcp", a.serveAgent)
	app.Get(metadataPath, a.resourceMetadata(""))
	app.Get(metadataPath+"/mcp", a.resourceMetadata("/mcp"))

	app.Get(serverMetadataPath, a.serverMetadata)
	app.Post("/oauth/register", a.registerApp)
	app.Get("/oauth/authorize", a.showConsent)
	app.Post("/oauth/authorize", a.owning(a.consent))
	app.Post("/oauth/token", a.exchangeToken)
	app.Post("/oauth/revoke", a.revokeToken)

	app.Get("/staking/status", a.owning(a.stakingStatus))
	app.Post("/staking/stake", a.owning(a.stake))
	app.Post("/staking/unstake", a.owning(a.unstake))
}

// allows reports whether a page may make a request. A page of any browser extension may add
// a memory, as an app that only writes: no list can hold its origin, because Firefox makes a
// new id for each installation.
func (a *API) allows(c *fiber.Ctx, origin string) bool {
	method := cmp.Or(c.Get(fiber.HeaderAccessControlRequestMethod), c.Method()) // a preflight names what will follow
	adds := method == http.MethodPost && c.Path() == "/memories"
	return slices.Contains(a.AllowedOrigins, origin) || adds && connect.IsExtensionOrigin(origin)
}

func readerOf(caller access.Caller) memory.Reader {
	return memory.Reader{Owner: caller.Owner, Head: caller.Head, Namespaces: caller.Namespaces}
}

// authenticated wraps a route. The use of an API key is recorded in the background, even if
// the route refuses the key.
func (a *API) authenticated(route func(*fiber.Ctx, access.Caller) error) fiber.Handler {
	return func(c *fiber.Ctx) error {
		caller, err := a.Access.Read(httpapi.Context(c), httpapi.Authorization(c))
		if err != nil {
			return err
		}
		a.uses.note(caller)
		return route(c, caller)
	}
}

// scoped wraps a route for which an API key needs a scope.
func (a *API) scoped(scope events.Scope, route func(*fiber.Ctx, access.Caller) error) fiber.Handler {
	return a.authenticated(func(c *fiber.Ctx, caller access.Caller) error {
		if err := caller.Require(scope); err != nil {
			return err
		}
		return route(c, caller)
	})
}

// reading wraps a route that reads memories.
func (a *API) reading(route func(*fiber.Ctx, memory.Reader) error) fiber.Handler {
	return a.scoped(events.ScopeRead, func(c *fiber.Ctx, caller access.Caller) error { return route(c, readerOf(caller)) })
}

// owning wraps a route that only a wallet's session may use.
func (a *API) owning(route func(*fiber.Ctx, access.Caller) error) fiber.Handler {
	return a.authenticated(func(c *fiber.Ctx, caller access.Caller) error {
		if caller.Credential.Kind != command.CredentialCoreSession {
			return httpapi.Refuse(http.StatusForbidden, "this route needs a wallet session; an API key is not enough")
		}
		return route(c, caller)
	})
}

// bare wraps a route that knows no members of a body.
func bare(route func(*fiber.Ctx, access.Caller) error) func(*fiber.Ctx, access.Caller) error {
	return func(c *fiber.Ctx, caller access.Caller) error {
		if err := httpapi.NoMembers(c); err != nil {
			return err
		}
		return route(c, caller)
	}
}

// writeMemory stores a memory. The message of a new memory also records the use of the
// API key. Replays and refused writes record the use separately. If the key was revoked
// in the meantime, its use is not recorded.
func (a *API) writeMemory(c *fiber.Ctx, caller access.Caller) error {
	write, err := a.write(c, caller)
	if err != nil || write.Replayed {
		a.uses.note(caller)
	}
	if err != nil {
		return err
	}
	return c.Status(http.StatusCreated).JSON(created{write.Written.MemoryID, write.Written.LeafHash, write.Written.LeafIndex})
}

func (a *API) write(c *fiber.Ctx, caller access.Caller) (*command.WriteMemory, error) {
	if err := caller.Require(events.ScopeWrite); err != nil {
		return nil, err
	}
	var body newMemory
	if err := httpapi.Decode(c, &body); err != nil {
		return nil, err
	}
	draft, err := body.draft(caller)
	if err != nil {
		return nil, err
	}
	if draft.IdempotencyKey, err = httpapi.IdempotencyKey(c); err != nil {
		return nil, err
	}
	return a.Memories.Write(httpapi.Context(c), draft)
}

type newMemory struct {
	Content *string `json:"content"`
	memory.Members
	Metadata jsontext.Value `json:"metadata"`
}

func (m newMemory) draft(caller access.Caller) (memory.Draft, error) {
	if m.Content == nil {
		return memory.Draft{}, memory.ErrEmptyContent
	}
	metadata, err := httpapi.Metadata(m.Metadata)
	return memory.Draft{
		Owner: caller.Owner, Content: *m.Content, Metadata: metadata, Members: m.Members.Trimmed(), Credential: caller.Credential, Namespaces: caller.Namespaces,
	}, err
}

// writeBatch stores memories in one message. It records the use of an API key as
// writeMemory does.
func (a *API) writeBatch(c *fiber.Ctx, caller access.Caller) error {
	batch, err := a.batch(c, caller)
	if err != nil || batch.Replayed {
		a.uses.note(caller)
	}
	if err != nil {
		return err
	}
	all := make([]created, len(batch.Memories))
	for i, m := range batch.Memories {
		all[i] = created{m.Written.MemoryID, m.Written.LeafHash, m.Written.LeafIndex}
	}
	return c.Status(http.StatusCreated).JSON(all)
}

func (a *API) batch(c *fiber.Ctx, caller access.Caller) (*command.WriteBatch, error) {
	if err := caller.Require(events.ScopeWrite); err != nil {
		return nil, err
	}
	var body struct {
		Memories []newMemory `json:"memories"`
	}
	if err := httpapi.Decode(c, &body); err != nil {
		return nil, err
	}
	if len(body.Memories) > memory.MaxBatch {
		return nil, memory.ErrBatchCount
	}
	drafts := make([]memory.Draft, len(body.Memories))
	for i, m := range body.Memories {
		var err error
		if drafts[i], err = m.draft(caller); err != nil {
			return nil, fmt.Errorf("memories[%d]: %w", i, err)
		}
	}
	key, err := httpapi.IdempotencyKey(c)
	if err != nil {
		return nil, err
	}
	if len(drafts) > 0 {
		drafts[0].IdempotencyKey = key
	}
	return a.Memories.WriteBatch(httpapi.Context(c), drafts)
}

type created struct {
	ID        string      `json:"id"`
	LeafHash  events.Hash `json:"leafHash"`
	LeafIndex uint64      `json:"leafIndex"`
}

func (a *API) getMemory(c *fiber.Ctx, reader memory.Reader) error {
	view, err := a.Memories.Get(httpapi.Context(c), reader, httpapi.Param(c, "id"))
	return httpapi.Answered(c, view, err)
}

func (a *API) retractMemory(c *fiber.Ctx, caller access.Caller) error {
	return httpapi.Done(c, a.Memories.Retract(httpapi.Context(c), readerOf(caller), caller.Credential, httpapi.Param(c, "id")))
}

// forgetMemory makes the text of a memory unreadable for good.
func (a *API) forgetMemory(c *fiber.Ctx, caller access.Caller) error {
	return httpapi.Done(c, a.Memories.Forget(httpapi.Context(c), readerOf(caller), caller.Credential, httpapi.Param(c, "id")))
}

func (a *API) searchMemories(c *fiber.Ctx, reader memory.Reader) error {
	return httpapi.SearchMemories(c, a.Memories, a.Quotas, reader, "", "")
}

// listMemories streams all memories. With limit or cursor, it returns one page.
func (a *API) listMemories(c *fiber.Ctx, reader memory.Reader) error {
	selection := memory.Selection{Order: memory.Oldest, Damaged: true}
	order, ordered, err := httpapi.Query(c, "order")
	switch {
	case err != nil:
		return err
	case order == string(memory.Newest):
		selection.Order = memory.Newest
	case ordered && order != string(memory.Oldest):
		return httpapi.BadRequest(`order must be "oldest" or "newest"`)
	}
	limit, limited, err := limitOf(c, httpapi.MaxPage)
	if err != nil {
		return err
	}
	cursor, continued, err := httpapi.Query(c, "cursor")
	if err != nil {
		return err
	}
	switch {
	case !limited && !continued:
	case selection.Order == memory.Newest:
		selection.Limit, selection.Cursor = limit, cursor
	default: // pages of leaves, some of which may be retracted
		var ok bool
		if selection.From, ok = httpapi.Number(cursor); continued && !ok {
			return memory.ErrCursor
		}
		selection.To = selection.From + uint64(limit)
	}
	return httpapi.StreamMemories(c, a.Memories, reader, selection, "", "", func(picked *memory.Picked) {
		next := url.Values{"limit": {strconv.Itoa(limit)}, "cursor": {picked.NextCursor}}
		switch {
		case selection.Order == memory.Newest && picked.NextCursor != "":
			next.Set("order", order)
		case selection.To > 0 && selection.To < picked.Size():
			next.Set("cursor", strconv.FormatUint(selection.To, 10))
		default:
			return
		}
		c.Set(fiber.HeaderLink, "<"+a.BaseURL+"/memories?"+next.Encode()+`>; rel="next"`)
	})
}

func (a *API) proveMemory(c *fiber.Ctx, reader memory.Reader) error {
	proof, err := a.Memories.Prove(httpapi.Context(c), reader, httpapi.Param(c, "id"))
	return httpapi.Answered(c, proof, err)
}

func (a *API) receiptOfMemory(c *fiber.Ctx, reader memory.Reader) error {
	receipt, err := a.Memories.Receipt(httpapi.Context(c), reader, httpapi.Param(c, "id"))
	return httpapi.Answered(c, receipt, err)
}

func (a *API) logHead(c *fiber.Ctx, reader memory.Reader) error {
	head, err := a.Memories.Head(httpapi.Context(c), reader)
	return httpapi.Answered(c, head, err)
}

func (a *API) logConsistency(c *fiber.Ctx, reader memory.Reader) error {
	from, err := sizeIn(c, "from")
	if err != nil {
		return err
	}
	to, err := sizeIn(c, "to")
	if err != nil {
		return err
	}
	consistency, err := a.Memories.ProveConsistency(httpapi.Context(c), reader, from, to)
	return httpapi.Answered(c, consistency, err)
}

// sizeIn reads a size of the log from the query parameter name.
func sizeIn(c *fiber.Ctx, name string) (uint64, error) {
	text, _, err := httpapi.Query(c, name)
	if err != nil {
		return 0, err
	}
	size, ok := httpapi.Number(text)
	if !ok {
		return 0, memory.ErrRange
	}
	return size, nil
}

//go:generate go run ../httpapi/openapi openapi.json openapi.yaml ../httpapi/openapi.yaml

// OpenAPI is this API's OpenAPI 3.1 document. It is made from openapi.yaml and from
// httpapi/openapi.yaml, the common part of both APIs.
//
//go:embed openapi.json
var OpenAPI []byte
