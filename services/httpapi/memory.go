package httpapi

import (
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/events/canonical"
)

// MemoryBody is the body of a request that writes a memory. A member that is
// left out is nil.
type MemoryBody struct {
	Content *string
	Source  *string // only where it was asked for

	raw      jsontext.Value
	metadata *canonical.Object // raw's form, where that is known already
}

// DecodeMemory is Decode for a MemoryBody; source says whether that member is
// one of the route's, or one of those that are ignored.
func DecodeMemory(c *fiber.Ctx, source bool) (MemoryBody, error) {
	raw, err := Body(c)
	if err != nil {
		return MemoryBody{}, err
	}
	if err := contentType(c, raw); err != nil {
		return MemoryBody{}, err
	}
	// Every write pays for this: what clients mostly send is read without the
	// general decoder.
	if body, ok := plainMemory(raw, source); ok {
		return body, nil
	}
	if source {
		var body struct {
			Content  *string        `json:"content"`
			Source   *string        `json:"source"`
			Metadata jsontext.Value `json:"metadata"`
		}
		err := Decode(c, &body)
		return MemoryBody{Content: body.Content, Source: body.Source, raw: body.Metadata}, err
	}
	var body struct {
		Content  *string        `json:"content"`
		Metadata jsontext.Value `json:"metadata"`
	}
	err = Decode(c, &body)
	return MemoryBody{Content: body.Content, raw: body.Metadata}, err
}

// Metadata passes the optional member through package canonical.
func (b *MemoryBody) Metadata() (canonical.Object, error) {
	switch {
	case b.metadata != nil:
		return *b.metadata, nil
	case b.raw == nil:
		return canonical.Empty, nil
	}
	return canonical.Admit(b.raw)
}

// plainMemory reads a body that has the known members, each once, and no other,
// and nothing wrong. It reports false for any other, which the general decoder
// then reads or refuses; FuzzPlainMemory holds it to that one.
func plainMemory(raw []byte, source bool) (MemoryBody, bool) {
	var body MemoryBody
	at := skipSpace(raw, 0)
	if at == len(raw) || raw[at] != '{' {
		return body, false
	}
	for {
		at = skipSpace(raw, at+1)
		end, ok := textEnd(raw, at)
		if !ok {
			return body, false
		}
		name := raw[at:end]
		at = skipSpace(raw, end)
		if at == len(raw) || raw[at] != ':' {
			return body, false
		}
		at = skipSpace(raw, at+1)
		switch {
		case string(name) == `"content"` && body.Content == nil:
			body.Content, at, ok = text(raw, at)
		case string(name) == `"source"` && source && body.Source == nil:
			body.Source, at, ok = text(raw, at)
		case string(name) == `"metadata"` && body.metadata == nil:
			body.metadata, at, ok = object(raw, at)
		default:
			return body, false
		}
		if !ok {
			return body, false
		}
		at = skipSpace(raw, at)
		switch {
		case at == len(raw):
			return body, false
		case raw[at] == ',':
		case raw[at] == '}':
			return body, skipSpace(raw, at+1) == len(raw)
		default:
			return body, false
		}
	}
}

func skipSpace(raw []byte, at int) int {
	for at < len(raw) && (raw[at] == ' ' || raw[at] == '\t' || raw[at] == '\r' || raw[at] == '\n') {
		at++
	}
	return at
}

// textEnd returns where the string ends that begins at at.
func textEnd(raw []byte, at int) (int, bool) {
	if at >= len(raw) || raw[at] != '"' {
		return 0, false
	}
	for i := at + 1; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			return i + 1, true
		case '\\':
			i++
		}
	}
	return 0, false
}

// text reads the string that begins at at.
func text(raw []byte, at int) (*string, int, bool) {
	end, ok := textEnd(raw, at)
	if !ok {
		return nil, 0, false
	}
	quoted := raw[at:end]
	ascii := true
	for _, c := range quoted[1 : len(quoted)-1] {
		if c == '\\' || c < ' ' {
			unquoted, err := jsontext.AppendUnquote(nil, quoted)
			if err != nil {
				return nil, 0, false
			}
			s := string(unquoted)
			return &s, end, true
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	if !ascii && !utf8.Valid(quoted) {
		return nil, 0, false
	}
	s := string(quoted[1 : len(quoted)-1])
	return &s, end, true
}

// object canonicalises the object that begins at at. Where its braces don't
// match, what is cut out is no object, and so refused.
func object(raw []byte, at int) (*canonical.Object, int, bool) {
	depth := 0
	for i := at; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			end, ok := textEnd(raw, i)
			if !ok {
				return nil, 0, false
			}
			i = end - 1
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth == 0 {
			o, err := canonical.Admit(raw[at : i+1])
			return &o, i + 1, err == nil
		}
	}
	return nil, 0, false
}
