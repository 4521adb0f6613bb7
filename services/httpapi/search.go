package httpapi

import (
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/rfc3339"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/services/memory"
	"github.com/memory-ledger/ledger/services/quota"
	"github.com/memory-ledger/ledger/services/recall"
)

type searchBody struct {
	Query  string     `json:"query"`
	Mode   string     `json:"mode"`
	Order  string     `json:"order"`
	Limit  *int       `json:"limit"`
	Cursor string     `json:"cursor"`
	Filter filterBody `json:"filter"`
}

type filterBody struct {
	Source   *string        `json:"source"`
	From     *string        `json:"from"`
	To       *string        `json:"to"`
	Anchored *bool          `json:"anchored"`
	Via      *viaBody       `json:"via"`
	Metadata jsontext.Value `json:"metadata"`

	OccurredFrom *string   `json:"occurredFrom"`
	OccurredTo   *string   `json:"occurredTo"`
	Tags         *[]string `json:"tags"`
	Namespace    *string   `json:"namespace"`
	Superseded   *bool     `json:"superseded"`
}

// viaBody is how a memory was written: {kind, id}, or only the kind as a string.
type viaBody struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

func (b *viaBody) UnmarshalJSONFrom(decoder *jsontext.Decoder) error {
	if decoder.PeekKind() == '"' {
		return json.UnmarshalDecode(decoder, &b.Kind)
	}
	type members viaBody
	return json.UnmarshalDecode(decoder, (*members)(b))
}

func (b *viaBody) filter() (string, error) {
	switch events.ViaKind(b.Kind) {
	case events.ViaSession, events.ViaKey, events.ViaDrop:
	default:
		return "", BadRequest(`filter.via must have the kind "session", "key" or "drop"`)
	}
	if b.ID == "" {
		return b.Kind, nil
	}
	return events.Via{Kind: events.ViaKind(b.Kind), ID: b.ID}.String(), nil
}

// SearchMemories answers with a JSON array of the memories that the search in the body
// finds, between prefix and suffix. Without a limit and a cursor, it streams all matches of
// a substring search as they are found. The header Next-Cursor names the next page, and
// Matched counts the memories on all pages, where that needs no further text.
func SearchMemories(c *fiber.Ctx, memories *memory.Service, quotas *quota.Quotas, reader memory.Reader, prefix, suffix string) error {
	var body searchBody
	if err := DecodeOptional(c, &body); err != nil {
		return err
	}
	selection, err := body.selection()
	if err != nil {
		return err
	}
	if err := quotas.Take(quota.Searches, reader.Owner, 1); err != nil { // refused input is not counted
		return err
	}
	return StreamMemories(c, memories, reader, selection, prefix, suffix, func(picked *memory.Picked) {
		if picked.NextCursor != "" {
			c.Set("Next-Cursor", picked.NextCursor)
		}
		if matched := picked.Matched(); matched != nil {
			c.Set("Matched", strconv.Itoa(*matched))
		}
	})
}

// StreamMemories answers with a JSON array of the memories of a selection, between prefix
// and suffix. The function name names the next page. The header Damaged counts the memories
// that are left out as damaged, as far as they are known when the answer begins.
func StreamMemories(c *fiber.Ctx, memories *memory.Service, reader memory.Reader, selection memory.Selection, prefix, suffix string, name func(*memory.Picked)) error {
	picked, err := memories.Select(Context(c), reader, selection, Gone(c))
	if err != nil {
		return err
	}
	name(picked)
	var shown func(*memory.View) (any, error)
	if selection.Ranked {
		shown = withPassage(selection.Query)
	}
	err = StreamArray(c, picked, shown, prefix, suffix)
	if err == nil && picked.LeftOut() > 0 {
		c.Set("Damaged", strconv.Itoa(picked.LeftOut()))
	}
	return err
}

// withPassage returns what adds to a memory the passage that answers a query.
func withPassage(query string) func(*memory.View) (any, error) {
	passages := recall.PassagesFor(query)
	return func(v *memory.View) (any, error) {
		if utf8.RuneCountInString(v.Content) > recall.PassageLength {
			from := passages.In(v.Content)
			to := from
			for characters := 0; characters < recall.PassageLength && to < len(v.Content); characters++ {
				_, size := utf8.DecodeRuneInString(v.Content[to:])
				to += size
			}
			v.Passage = &memory.Passage{Text: v.Content[from:to], Offset: utf8.RuneCountInString(v.Content[:from])}
		}
		return v, nil
	}
}

// MaxPage bounds the memories or events that a request for a page may ask for.
const MaxPage = 1000

func (b searchBody) selection() (s memory.Selection, err error) {
	s = memory.Selection{Query: b.Query, Cursor: b.Cursor}
	switch b.Mode {
	case "", "substring":
		s.Order = memory.Oldest
	case "ranked":
		s.Ranked, s.Order = true, memory.Relevance
	default:
		return s, BadRequest(`mode must be "substring" or "ranked"`)
	}
	switch order := memory.Order(b.Order); order {
	case "":
	case memory.Oldest, memory.Newest, memory.Occurred:
		s.Order = order
	case memory.Relevance:
		if !s.Ranked {
			return s, BadRequest(`order "relevance" needs mode "ranked"`)
		}
	default:
		return s, BadRequest(`order must be "oldest", "newest", "occurred" or "relevance"`)
	}
	if b.Limit != nil {
		if *b.Limit < 1 || *b.Limit > MaxPage {
			return s, BadRequest("limit must be an integer from 1 to 1000")
		}
		s.Limit = *b.Limit
	}
	s.Current = s.Ranked
	if b.Filter.Superseded != nil {
		s.Current = !*b.Filter.Superseded
	}
	s.Filter, err = b.Filter.filter()
	return s, errors.Join(err, s.Check())
}

func (b filterBody) filter() (f memories.Filter, err error) {
	f.Anchored = b.Anchored
	for _, bound := range []struct {
		name string
		text *string
		read func(string) (time.Time, bool)
		to   *time.Time
	}{
		{"from", b.From, rfc3339.From, &f.From}, {"to", b.To, rfc3339.To, &f.To},
		{"occurredFrom", b.OccurredFrom, rfc3339.From, &f.OccurredFrom}, {"occurredTo", b.OccurredTo, rfc3339.To, &f.OccurredTo},
	} {
		if bound.text == nil {
			continue
		}
		var ok bool
		if *bound.to, ok = bound.read(*bound.text); !ok {
			return f, BadRequest("filter." + bound.name + " must be a date, or a date and time as RFC 3339 has it")
		}
	}
	if b.Via != nil {
		if f.Via, err = b.Via.filter(); err != nil {
			return f, err
		}
	}
	if len(b.Metadata) > 0 {
		if err := f.HasMembers(b.Metadata); err != nil {
			return f, err
		}
		// This bounds the members that a filter asks for. The database looks for each of them
		// in each memory's metadata, in one time slot.
		if len(f.Metadata) > 16 {
			return f, BadRequest("filter.metadata must have at most 16 members")
		}
	}
	err = errors.Join(f.Has("source", b.Source), f.Has("namespace", b.Namespace))
	if b.Tags != nil {
		if len(*b.Tags) > 16 { // as many as a memory has
			return f, BadRequest("filter.tags must have at most 16 tags")
		}
		err = errors.Join(err, f.HasTags(*b.Tags))
	}
	return f, err
}
