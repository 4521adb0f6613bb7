package extension

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/grant"
	"github.com/memory-ledger/ledger/services/httpapi"
	"github.com/memory-ledger/ledger/services/httpapi/connect"
	"github.com/memory-ledger/ledger/services/memory"
	"github.com/memory-ledger/ledger/services/signin"
)

// The pages that people see at the links of grants. They need no script.
var (
	//go:embed pages/*.html
	pageFiles embed.FS
	//go:embed pages/pages.css
	pagesCSS string

	pages = template.Must(connect.Parts().ParseFS(pageFiles, "pages/*.html"))
	style = connect.Style + pagesCSS
	// pagesPolicy allows the pages' style by its hash, their icon, and forms to their own
	// origin. With a hash, unlike a nonce, equal pages are equal bytes.
	pagesPolicy = "default-src 'none'; style-src 'sha256-" + hashOf(style) + "'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// frame is what all pages share; see connect.Parts.
type frame struct{ Nonce string }

func (frame) Style() template.CSS { return template.CSS(style) }

// linkPage is the page of a live link.
type linkPage struct {
	frame
	Left, MaxUses int
	ExpiresAt     events.Timestamp
	Minutes       int    // until it expires, rounded up
	Action        string // the action of its form
	// For a refused form: the reason, and the text that was sent.
	Problem, Content, Source string
}

func (a *API) linkPageOf(o grant.Opened) linkPage {
	left := o.ExpiresAt.Time().Sub(a.Grants.Now())
	return linkPage{Left: o.Left, MaxUses: o.MaxUses, ExpiresAt: o.ExpiresAt, Minutes: int((left + time.Minute - 1) / time.Minute)}
}

// Until is when the link ends, for people.
func (p linkPage) Until() string { return p.ExpiresAt.Time().Format("15:04 UTC on 2 January 2006") }

// leftPage is the page about a memory that was stored through a drop.
type leftPage struct {
	frame
	command.Written
	More int // writes that are left on the link
}

func sendPage(c *fiber.Ctx, status int, name string, data any) error {
	var html bytes.Buffer
	if err := pages.ExecuteTemplate(&html, name, data); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	asPage(c)
	return c.Status(status).Send(html.Bytes())
}

func asPage(c *fiber.Ctx) {
	c.Set(fiber.HeaderContentSecurityPolicy, pagesPolicy)
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	c.Set(fiber.HeaderContentType, fiber.MIMETextHTMLCharsetUTF8)
}

// deadPage sends the same bytes, whatever makes the token invalid.
func deadPage(c *fiber.Ctx) error { return sendPage(c, http.StatusNotFound, "dead.html", frame{}) }

// refusedPage is the page for a request that was refused for a reason other than its
// link.
type refusedPage struct {
	frame
	Later bool // the service failed; a later attempt may work
	Form  bool // the browser still has the form and sends it again on reload
}

// refusalPage answers refused requests of browsers at the links of grants with a page. It
// answers every refusal of a drop's form, and otherwise only failures of the service. The
// page says nothing about the token.
func refusalPage(c *fiber.Ctx, status int) (answered bool) {
	kind, token, _ := strings.Cut(strings.TrimPrefix(c.Path(), "/"), "/")
	form, later := httpapi.IsForm(c), status >= http.StatusInternalServerError
	switch {
	case kind != "agent-cases" && kind != "memory-drops", token == "", strings.Contains(token, "/"), !httpapi.WantsPage(c):
		return false
	case !form && c.Method() != http.MethodGet, !later && !(form && kind == "memory-drops"):
		return false
	}
	c.Vary(fiber.HeaderAccept)
	return sendPage(c, status, "refused.html", refusedPage{Later: later, Form: form && kind == "memory-drops"}) == nil
}

func deadCase(c *fiber.Ctx) error {
	c.Vary(fiber.HeaderAccept)
	if httpapi.WantsPage(c) {
		return deadPage(c)
	}
	return c.Status(http.StatusNotFound).Type("txt", "utf-8").SendString("not found\n")
}

// showCase shows a browser the page that says what opening the case spends. It gives the
// document to every other client.
func (a *API) showCase(c *fiber.Ctx) error {
	c.Vary(fiber.HeaderAccept)
	if !httpapi.WantsPage(c) {
		return a.readCase(c)
	}
	opened, err := a.Grants.Open(httpapi.Context(c), httpapi.Param(c, "token"), events.GrantCase)
	switch {
	case isDead(err):
		return deadCase(c)
	case err != nil:
		return err
	}
	return sendPage(c, http.StatusOK, "case.html", a.linkPageOf(opened))
}

// showDrop shows the form to a browser. Other clients get 405.
func (a *API) showDrop(c *fiber.Ctx) error {
	c.Vary(fiber.HeaderAccept)
	if !httpapi.WantsPage(c) {
		c.Set(fiber.HeaderAllow, "POST")
		return fiber.ErrMethodNotAllowed
	}
	drop, err := a.Grants.Open(httpapi.Context(c), httpapi.Param(c, "token"), events.GrantDrop)
	switch {
	case isDead(err):
		return deadPage(c)
	case err != nil:
		return err
	}
	page := a.linkPageOf(drop)
	page.Action = actionOf(rand.Text())
	return sendPage(c, http.StatusOK, "drop.html", page)
}

// formKey is the query parameter in which the page's form sends its key, as programs send
// the Idempotency-Key: a form that is sent twice stores one memory. The key is in the
// address because the token is checked before the body is read.
const formKey = "key"

func actionOf(key string) string { return "?" + url.Values{formKey: {key}}.Encode() }

// fillDropByForm is fillDrop for a page's form. A browser gets a page: either the stored
// memory, or the form again with the text that was sent.
func (a *API) fillDropByForm(c *fiber.Ctx) error {
	c.Vary(fiber.HeaderAccept)
	key, malformed := keyOfForm(c)
	drop, err := a.Grants.OpenDrop(httpapi.Context(c), httpapi.Param(c, "token"), key)
	if err == nil {
		err = malformed
	}
	var form map[string]string
	if err == nil {
		form, err = httpapi.Form(c, "content", "source")
	}
	var written command.Written
	if err == nil {
		content, body := form["content"], dropBody{}
		body.Content = &content
		if source := form["source"]; source != "" {
			body.Source = &source
		}
		written, err = a.deposit(c, drop, body)
	}
	switch {
	case !httpapi.WantsPage(c) && err != nil:
		return err
	case !httpapi.WantsPage(c):
		return c.Status(http.StatusCreated).JSON(answerOf(written))
	case isDead(err):
		return deadPage(c)
	case err != nil:
		return a.formAgain(c, drop, form, err)
	}
	page := leftPage{Written: written}
	if left, err := a.Grants.Open(httpapi.Context(c), httpapi.Param(c, "token"), events.GrantDrop); err == nil {
		page.More = left.Left
	}
	return sendPage(c, http.StatusCreated, "left.html", page)
}

// keyOfForm returns the write's key: the Idempotency-Key, or the key in the form's
// address.
func keyOfForm(c *fiber.Ctx) (*events.Hash, error) {
	key, err := httpapi.IdempotencyKey(c)
	if key != nil || err != nil {
		return key, err
	}
	text, given, err := httpapi.Query(c, formKey)
	if !given || err != nil {
		return nil, err
	}
	return new(signin.HashToken(text)), nil
}

// formAgain shows the form again, with the text that was sent and the reason of the
// refusal.
func (a *API) formAgain(c *fiber.Ctx, drop grant.Opened, form map[string]string, refusal error) error {
	status, message := httpapi.Answer(refusal)
	if status >= http.StatusInternalServerError || form == nil {
		return refusal
	}
	httpapi.RetryAfter(c, refusal)
	page := a.linkPageOf(drop)
	page.Action, page.Problem, page.Content, page.Source = actionOf(rand.Text()), message, form["content"], form["source"]
	switch {
	case errors.Is(refusal, errContent):
		page.Problem = "a memory has 1 to 10,000 characters"
	case errors.Is(refusal, memory.ErrSource):
		page.Problem = "where it is from takes at most 80 characters"
	case errors.Is(refusal, command.ErrIdempotencyMismatch) && drop.Left == 0:
		return deadPage(c)
	case errors.Is(refusal, command.ErrIdempotencyMismatch):
		// The form was sent twice, the second time with other text.
		page.Problem = "this form has left another text before; send it once more to leave this one too"
	}
	return sendPage(c, status, "drop.html", page)
}
