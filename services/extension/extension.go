// Package extension is the extension API. It serves the browser extension, the sign-in
// page, and the holders of one-time grants.
package extension

import (
	_ "embed"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/grant"
	"github.com/memory-ledger/ledger/services/httpapi"
	"github.com/memory-ledger/ledger/services/httpapi/connect"
	"github.com/memory-ledger/ledger/services/memory"
	"github.com/memory-ledger/ledger/services/quota"
	"github.com/memory-ledger/ledger/services/signin"
)

// API holds the services that the routes use.
type API struct {
	Access         *access.Authenticator
	Desk           *signin.SignIn
	Memories       *memory.Service
	Commands       *command.Executor
	Grants         *grant.Service
	Quotas         *quota.Quotas // of searches; nil: no quotas
	BaseURL        string        // public, without a slash at the end
	AllowedOrigins []string
	SessionTTL     time.Duration
	ExtensionNames map[string]string // by id, for the sign-in page
}

func (a *API) Mount(app *httpapi.App) {
	app.AllowOrigins(httpapi.CORS{
		Allows: func(_ *fiber.Ctx, origin string) bool {
			return connect.IsExtensionOrigin(origin) || slices.Contains(a.AllowedOrigins, origin)
		},
		Methods: "GET, POST", Exposed: "Damaged, Matched, Next-Cursor, Retry-After, WWW-Authenticate, X-Request-Id",
	})
	app.Page = refusalPage
	app.Health("memory-ledger-extension")
	app.SignIn(a.Desk, true)
	app.Get("/auth/me", a.reading(a.me))
	app.Post("/auth/logout", httpapi.Writing(a.Access, a.logout))
	app.Get("/connect", connect.Page(connect.Config{APIURL: a.BaseURL, SessionTTL: a.SessionTTL, Names: a.ExtensionNames}))

	app.Get("/memories", app.Compressed(a.reading(a.listMemories)))
	app.Post("/memories", httpapi.Writing(a.Access, a.writeMemory))
	app.Post("/memories/search", app.Compressed(a.reading(a.searchMemories)))

	app.Post("/agent-cases", httpapi.Writing(a.Access, a.mint(events.GrantCase)))
	app.Get("/agent-cases/:id/status", a.reading(a.status(events.GrantCase)))
	app.Post("/agent-cases/:id/revoke", a.reading(a.revoke(events.GrantCase)))
	// Not Get, which also adds HEAD: a HEAD request would spend a read without returning
	// the document.
	app.Add(http.MethodGet, "/agent-cases/:token", refuseLooking, a.showCase)
	app.Post("/agent-cases/:token", refuseLooking, a.readCase)

	app.Post("/memory-drops", httpapi.Writing(a.Access, a.mint(events.GrantDrop)))
	app.Get("/memory-drops/:id/status", a.reading(a.status(events.GrantDrop)))
	app.Post("/memory-drops/:id/revoke", a.reading(a.revoke(events.GrantDrop)))
	app.Get("/memory-drops/:token", a.showDrop)
	app.Post("/memory-drops/:token", a.fillDrop)
}

func (a *API) reading(route func(*fiber.Ctx, access.Caller) error) fiber.Handler {
	return func(c *fiber.Ctx) error {
		caller, err := a.Access.Read(httpapi.Context(c), httpapi.Authorization(c))
		if err != nil {
			return err
		}
		return route(c, caller)
	}
}

func (a *API) me(c *fiber.Ctx, caller access.Caller) error {
	standing, err := a.Commands.Standing(httpapi.Context(c), caller.Owner)
	return httpapi.Answered(c, fiber.Map{"userId": standing.UserID, "publicKey": caller.Owner}, err)
}

func (a *API) logout(c *fiber.Ctx, caller access.Caller) error {
	return httpapi.Done(c, a.Commands.Execute(httpapi.Context(c), caller.Owner, &command.SignOut{SessionID: caller.Credential.ID}))
}

func (a *API) listMemories(c *fiber.Ctx, caller access.Caller) error {
	return httpapi.StreamMemories(c, a.Memories, memory.Reader{Owner: caller.Owner, Head: caller.Head},
		memory.Selection{Order: memory.Oldest, Damaged: true}, `{"memories":`, `}`, func(*memory.Picked) {})
}

func (a *API) searchMemories(c *fiber.Ctx, caller access.Caller) error {
	return httpapi.SearchMemories(c, a.Memories, a.Quotas, memory.Reader{Owner: caller.Owner, Head: caller.Head}, `{"memories":`, `}`)
}

var errContent = httpapi.BadRequest("content must be a string of 1 to 10000 characters")

// memoryBody is the body of a write. An absent member is nil.
type memoryBody struct {
	Content *string `json:"content"`
	memory.Members
	Metadata jsontext.Value `json:"metadata"`
}

// dropBody is the body of a write through a drop, whose owner alone corrects memories, and
// keeps them apart.
type dropBody struct {
	Content    *string        `json:"content"`
	Source     *string        `json:"source"`
	OccurredAt *string        `json:"occurredAt"`
	Tags       *[]string      `json:"tags"`
	Metadata   jsontext.Value `json:"metadata"`
}

type written struct {
	ID        string           `json:"id"`
	LeafHash  events.Hash      `json:"leafHash"`
	LeafIndex uint64           `json:"leafIndex"`
	Anchored  bool             `json:"anchored"`
	CreatedAt events.Timestamp `json:"createdAt"`
	Metadata  jsontext.Value   `json:"metadata"`
}

func (a *API) writeMemory(c *fiber.Ctx, caller access.Caller) error {
	var body memoryBody
	if err := httpapi.Decode(c, &body); err != nil {
		return err
	}
	if body.Content == nil {
		return errContent
	}
	if body.Source == nil {
		return memory.ErrSource
	}
	content := strings.TrimSpace(*body.Content)
	metadata, err := checkText(content, body.Metadata)
	if err != nil {
		return err
	}
	idempotencyKey, err := httpapi.IdempotencyKey(c)
	if err != nil {
		return err
	}
	write, err := a.Memories.Write(httpapi.Context(c), memory.Draft{
		Owner: caller.Owner, Content: content, Metadata: metadata, Members: body.Members.Trimmed(),
		IdempotencyKey: idempotencyKey, Credential: caller.Credential,
	})
	if err != nil {
		return err
	}
	return c.Status(http.StatusCreated).JSON(written{
		ID: write.Written.MemoryID, LeafHash: write.Written.LeafHash, LeafIndex: write.Written.LeafIndex,
		CreatedAt: write.Written.CreatedAt, Metadata: jsontext.Value(write.Metadata.String()),
	})
}

func checkText(content string, raw jsontext.Value) (canonical.Object, error) {
	if n := memory.Length(content); n < 1 || n > 10000 {
		return canonical.Object{}, errContent
	}
	return httpapi.Metadata(raw)
}

var (
	errPrefetch = httpapi.Refuse(http.StatusForbidden, "a read of this document is not spent on a prefetch or a preview")
	errPart     = httpapi.Refuse(http.StatusRequestedRangeNotSatisfiable, "this document is only given whole")
)

// refuseLooking refuses the requests that browsers, chats and mail programs send for a
// link before a user opens it. It runs before the token is checked, so it spends nothing
// and reveals nothing about the token.
func refuseLooking(c *fiber.Ctx) error {
	header := &c.Request().Header
	for _, purpose := range []string{"Sec-Purpose", "Purpose", "X-Purpose"} {
		if len(header.PeekAll(purpose)) > 0 {
			return errPrefetch
		}
	}
	if strings.EqualFold(c.Get("X-Moz"), "prefetch") {
		return errPrefetch
	}
	if len(header.PeekAll(fiber.HeaderRange)) > 0 {
		return errPart
	}
	return c.Next()
}

func (a *API) readCase(c *fiber.Ctx) error {
	if c.Vary(fiber.HeaderAccept); asksForPage(c) {
		return a.openCase(c)
	}
	document, err := a.Grants.Read(httpapi.Context(c), httpapi.Param(c, "token"), nil, httpapi.Gone(c))
	if err != nil {
		if isDead(err) {
			return deadCase(c)
		}
		return err
	}
	c.Set(fiber.HeaderContentType, "text/markdown; charset=utf-8")
	if document.Size < 0 {
		return httpapi.Stream(c, document.Text)
	}
	return c.SendStream(document.Text, document.Size)
}

// filled is the answer to a write through a drop.
type filled struct {
	OK        bool             `json:"ok"`
	MemoryID  string           `json:"memoryId"`
	Anchored  bool             `json:"anchored"`
	LeafHash  events.Hash      `json:"leafHash"`
	CreatedAt events.Timestamp `json:"createdAt"`
}

func (a *API) fillDrop(c *fiber.Ctx) error {
	if httpapi.IsForm(c) {
		return a.fillDropByForm(c)
	}
	key, malformed := httpapi.IdempotencyKey(c)
	// Check the token first: a dead token gets the same 404 whatever else is wrong with
	// the request. Otherwise a guesser could see which tokens are alive.
	drop, err := a.Grants.OpenDrop(httpapi.Context(c), httpapi.Param(c, "token"), key)
	if err != nil {
		return err
	}
	if malformed != nil {
		return malformed
	}
	var body dropBody
	if err := httpapi.Decode(c, &body); err != nil {
		return err
	}
	written, err := a.deposit(c, drop, body)
	if err != nil {
		return err
	}
	return c.Status(http.StatusCreated).JSON(answerOf(written))
}

func (a *API) deposit(c *fiber.Ctx, drop grant.Opened, body dropBody) (command.Written, error) {
	if body.Content == nil {
		return command.Written{}, errContent
	}
	metadata, err := checkText(*body.Content, body.Metadata)
	if err != nil {
		return command.Written{}, err
	}
	return a.Grants.Deposit(httpapi.Context(c), drop, *body.Content, metadata, memory.Members{Source: body.Source, OccurredAt: body.OccurredAt, Tags: body.Tags})
}

func answerOf(memory command.Written) filled {
	return filled{OK: true, MemoryID: memory.MemoryID, LeafHash: memory.LeafHash, CreatedAt: memory.CreatedAt}
}

//go:generate go run ../httpapi/openapi openapi.json openapi.yaml ../httpapi/openapi.yaml

// OpenAPI is this API's OpenAPI 3.1 document. It is made from openapi.yaml and
// httpapi/openapi.yaml, the common source of both APIs.
//
//go:embed openapi.json
var OpenAPI []byte
