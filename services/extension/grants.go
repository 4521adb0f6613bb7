package extension

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/grant"
	"github.com/memory-ledger/ledger/services/httpapi"
	"github.com/memory-ledger/ledger/services/memory"
)

func isDead(err error) bool { return errors.Is(err, grant.ErrDead) }

func (a *API) mint(kind events.GrantKind) func(*fiber.Ctx, access.Caller) error {
	terms := grant.TermsOf(kind)
	return func(c *fiber.Ctx, caller access.Caller) error {
		asked, err := askedTerms(c, kind)
		if err != nil {
			return err
		}
		minutes, err := within("expiresInMinutes", asked.minutes, terms.DefaultMinutes, terms.MinMinutes, terms.MaxMinutes)
		if err != nil {
			return err
		}
		uses, err := within(terms.UsesField, asked.uses, terms.DefaultUses, terms.MinUses, terms.MaxUses)
		if err != nil {
			return err
		}
		minted, err := a.Grants.Mint(httpapi.Context(c), caller, grant.Asked{
			Kind: kind, Lifetime: time.Duration(minutes) * time.Minute, Uses: uses, Namespace: asked.namespace,
		})
		if err != nil {
			return err
		}
		return c.Status(http.StatusCreated).JSON(fiber.Map{
			"id": minted.ID, "url": minted.URL, "expiresAt": minted.ExpiresAt, terms.UsesField: uses, terms.LeftField: uses,
			"revokedPreviousCount": minted.RevokedPrevious,
		})
	}
}

// asked holds the terms in a request to mint; nil for an absent member.
type asked struct {
	minutes, uses *int
	namespace     *string
}

// askedTerms reads the members of the kind's own route. It refuses the other kind's
// member, like any unknown member.
func askedTerms(c *fiber.Ctx, kind events.GrantKind) (asked, error) {
	if kind == events.GrantCase {
		var body struct {
			ExpiresInMinutes *int    `json:"expiresInMinutes"`
			MaxReads         *int    `json:"maxReads"`
			Namespace        *string `json:"namespace"`
		}
		err := httpapi.DecodeOptional(c, &body)
		return asked{body.ExpiresInMinutes, body.MaxReads, body.Namespace}, err
	}
	var body struct {
		ExpiresInMinutes *int    `json:"expiresInMinutes"`
		MaxWrites        *int    `json:"maxWrites"`
		Namespace        *string `json:"namespace"`
	}
	err := httpapi.DecodeOptional(c, &body)
	return asked{body.ExpiresInMinutes, body.MaxWrites, body.Namespace}, err
}

func within(name string, asked *int, byDefault, least, most int) (int, error) {
	if asked == nil {
		return byDefault, nil
	}
	if *asked < least || *asked > most {
		return 0, httpapi.BadRequest(fmt.Sprintf("%s must be an integer from %d to %d", name, least, most))
	}
	return *asked, nil
}

func (a *API) status(kind events.GrantKind) func(*fiber.Ctx, access.Caller) error {
	return func(c *fiber.Ctx, caller access.Caller) error {
		g, err := a.Grants.ByID(httpapi.Context(c), caller.Owner, kind, httpapi.Param(c, "id"))
		if err != nil {
			return err
		}
		terms, now := grant.TermsOf(kind), a.Grants.Now()
		return c.JSON(fiber.Map{
			terms.UsedField: g.Used, terms.LeftField: g.MaxUses - g.Used,
			"revoked": g.Revoked(now), "expired": !now.Before(g.ExpiresAt.Time()),
		})
	}
}

func (a *API) revoke(kind events.GrantKind) func(*fiber.Ctx, access.Caller) error {
	return func(c *fiber.Ctx, caller access.Caller) error {
		if err := httpapi.NoMembers(c); err != nil {
			return err
		}
		revoked, err := a.Grants.Revoke(httpapi.Context(c), caller.Owner, caller.Credential, kind, httpapi.Param(c, "id"))
		return httpapi.Answered(c, fiber.Map{"ok": true, "revoked": revoked}, err)
	}
}

// asksForPage reports whether a person pressed the page's button. Every other client gets
// the document, also one that says that it prefers HTML.
func asksForPage(c *fiber.Ctx) bool {
	if c.Method() != fiber.MethodPost || !httpapi.IsForm(c) || !httpapi.WantsPage(c) {
		return false
	}
	form, err := httpapi.Form(c, "as")
	return err == nil && form["as"] == "page"
}

// openCase answers with the memories as a page. It ends with the document as a link, so
// that keeping it spends no second read.
func (a *API) openCase(c *fiber.Ctx) error {
	document, err := a.Grants.Read(httpapi.Context(c), httpapi.Param(c, "token"), casePage{}, httpapi.Gone(c))
	switch {
	case isDead(err):
		return deadCase(c)
	case err != nil:
		return err
	}
	asPage(c)
	var end strings.Builder
	if err := pages.ExecuteTemplate(&end, "opened-end", nil); err != nil {
		return fmt.Errorf("write opened.html: %w", err)
	}
	// The template's escaper would hold all of a link in memory.
	before, after, _ := strings.Cut(end.String(), "DOCUMENT")
	return httpapi.Stream(c, io.MultiReader(document.Page, strings.NewReader(before), &base64Reader{text: document.Text}, strings.NewReader(after)))
}

// base64Reader reads a text's base64.
type base64Reader struct {
	text   io.Reader
	piece  [3 << 13]byte // a multiple of 3, so that only the last piece is padded
	buffer bytes.Buffer
}

func (r *base64Reader) Read(p []byte) (int, error) {
	if r.buffer.Len() == 0 {
		n, err := io.ReadFull(r.text, r.piece[:])
		if n == 0 || err != nil && err != io.ErrUnexpectedEOF {
			return 0, err
		}
		r.buffer.Write(base64.StdEncoding.AppendEncode(r.buffer.AvailableBuffer(), r.piece[:n]))
	}
	return r.buffer.Read(p)
}

// casePage lays out an opened case as a page.
type casePage struct{}

func (casePage) Head(b *bytes.Buffer, owner events.Owner, at events.Timestamp, memories uint64) {
	write(b, "opened-head", struct {
		frame
		Owner    events.Owner
		At       string
		Memories uint64
	}{Owner: owner, At: at.Time().Format("15:04 UTC on 2 January 2006"), Memories: memories})
}

type shownMemory struct {
	*memory.View
	Moment   time.Time
	Day      string
	Source   string
	Tags     []string
	Metadata string
	ByLink   bool // by someone who may not be the owner
	CameInBy string
}

func (casePage) Memory(b *bytes.Buffer, v *memory.View) {
	m := shownMemory{View: v, Moment: memories.Moment(v.CreatedAt.Time(), v.Metadata), Metadata: string(v.Metadata), CameInBy: "not recorded"}
	m.Day = m.Moment.UTC().Format("2 January 2006")
	var said struct { // a name in metadata may have any value
		Source any `json:"source"`
		Tags   any `json:"tags"`
	}
	_ = json.Unmarshal(v.Metadata, &said)
	m.Source, _ = said.Source.(string)
	tags, _ := said.Tags.([]any)
	for _, tag := range tags {
		if text, ok := tag.(string); ok {
			m.Tags = append(m.Tags, text)
		}
	}
	if via := v.Origin(); via != nil {
		m.ByLink = via.Kind == events.ViaDrop
		m.CameInBy = fmt.Sprintf("%s %s", via.Kind, via.ID)
	}
	write(b, "opened-memory", m)
}

func (casePage) Damaged(b *bytes.Buffer, memories int) { write(b, "opened-damaged", memories) }

// write adds a part of the page. Only a template with a fault could fail, for all pages.
func write(b *bytes.Buffer, name string, data any) { _ = pages.ExecuteTemplate(b, name, data) }
