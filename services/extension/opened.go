package extension

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/services/grant"
	"github.com/memory-ledger/ledger/services/httpapi"
	"github.com/memory-ledger/ledger/services/memory"
)

// asksForPage reports whether a person pressed the page's button. Every other client gets
// the document, also one that says that it prefers HTML.
func asksForPage(c *fiber.Ctx) bool {
	if c.Method() != fiber.MethodPost || !httpapi.IsForm(c) || !httpapi.WantsPage(c) {
		return false
	}
	form, err := httpapi.Form(c)
	return err == nil && form["as"] == "page"
}

// openCase answers with the memories as a page. It ends with the document as a link, so
// that keeping it spends no second read.
func (a *API) openCase(c *fiber.Ctx) error {
	httpapi.Allow(c, grant.ReadTimeout)
	page, document, err := a.Grants.ReadPage(httpapi.Context(c), httpapi.Param(c, "token"), casePage{}, httpapi.Gone(c))
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
	return httpapi.Stream(c, io.MultiReader(page, strings.NewReader(before), inBase64(document), strings.NewReader(after)))
}

// inBase64 returns a reader of a text's base64.
func inBase64(text io.Reader) io.Reader { return &base64Reader{text: text} }

type base64Reader struct {
	text   io.Reader
	piece  [3 << 13]byte // a multiple of 3, so that only the last piece is padded
	buffer bytes.Buffer
}

// Read implements io.Reader.
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

// Head implements grant.Layout.
func (casePage) Head(b *bytes.Buffer, owner events.Owner, at events.Timestamp, memories uint64) {
	write(b, "opened-head", struct {
		frame
		Owner    events.Owner
		At       string
		Memories uint64
	}{Owner: owner, At: at.Time().Format("15:04 UTC on 2 January 2006"), Memories: memories})
}

// shownMemory is a memory as the page shows it.
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

// Memory implements grant.Layout.
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
	if v.Via != nil {
		m.ByLink = v.Via.Kind == events.ViaDrop
		m.CameInBy = fmt.Sprintf("%s %s", v.Via.Kind, v.Via.ID)
	}
	write(b, "opened-memory", m)
}

// Damaged implements grant.Layout.
func (casePage) Damaged(b *bytes.Buffer, memories int) { write(b, "opened-damaged", memories) }

// write adds a part of the page. Only a template with a fault could fail, for all pages.
func write(b *bytes.Buffer, name string, data any) { _ = pages.ExecuteTemplate(b, name, data) }
