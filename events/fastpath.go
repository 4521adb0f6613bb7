package events

import (
	"bytes"
	"encoding/base64"
	"math"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A replay decodes every message of the log, nearly all of them one event in
// the very bytes that EncodeBatch writes. decodeCanonical reads that form, and
// no other, at a third of the cost. It gives up on the first byte that is not
// where EncodeBatch puts it: what it gives up on is for the general decoder to
// read or to refuse, so this one decides nothing. A test holds the two to the
// same answer.

// decodeCanonical reads a batch of one event. It reports false for anything
// that it does not take, and then e is worthless.
func (c *codec) decodeCanonical(payload []byte, e *Event) bool {
	start := bytes.Index(payload, []byte(`,"data":`))
	if start < 0 || !bytes.HasSuffix(payload, []byte(`}]`)) {
		return false
	}
	// One allocation holds all the texts of the event.
	s := scanner{rest: string(payload[:start])}
	data := payload[start+len(`,"data":`) : max(start+len(`,"data":`), len(payload)-len(`}]`))]
	s.skip(`[{"specversion":"` + specVersion + `","id":"`)
	e.ID = s.until(`","source":"`)
	e.Source = s.until(`","type":"`)
	form, known := c.forms[Type(s.until(`","subject":"`))]
	e.Owner = Owner(s.until(`","time":"`))
	at := s.until(`","datacontenttype":"` + dataContentType + `","dataschema":"`)
	schema := s.until(`","ownerversion":`)
	version, counted := parseUint(s.until(`,"commandid":"`))
	s.tail(e)
	if s.failed || !known || schema != form.schema || !counted || version > math.MaxInt32 {
		return false
	}
	e.OwnerVersion = int(version)
	return e.Time.UnmarshalText([]byte(at)) == nil && sameCommand(e, e) == nil && decodeCanonicalData(data, form.definition, e)
}

func decodeCanonicalData(data []byte, definition *Definition, e *Event) bool {
	e.Data = definition.New()
	if m, ok := e.Data.(*MemoryWritten); ok {
		return decodeCanonicalMemory(data, m)
	}
	return json.Unmarshal(data, e.Data, json.RejectUnknownMembers(true)) == nil
}

// decodeCanonicalMemory reads the payload that a log is full of. The metadata
// is the one member whose end has to be found. What follows it are texts
// without quotes in them, so they are taken off from the end.
func decodeCanonicalMemory(data []byte, m *MemoryWritten) bool {
	const metadataName = `,"metadata":`
	begin := bytes.Index(data, []byte(metadataName))
	head, ended := bytes.CutSuffix(data, []byte(`}`))
	if begin < 0 || !ended {
		return false
	}
	if rest, key, keyed := cutLastText(head, `,"idempotencyKeyHash":`); keyed {
		m.IdempotencyKeyHash = new(Hash)
		if m.IdempotencyKeyHash.UnmarshalText(key) != nil {
			return false
		}
		head = rest
	}
	head, sealed, ok := cutLastText(head, `,"sealed":`)
	if !ok || len(head) < begin+len(metadataName)+len(`{}`) {
		return false
	}
	metadata := head[begin+len(metadataName):]
	if metadata[0] != '{' || metadata[len(metadata)-1] != '}' || !jsontext.Value(metadata).IsValid() {
		return false
	}
	m.Metadata = bytes.Clone(metadata)
	return decodeSealed(sealed, m) && decodeLeaf(string(data[:begin]), m)
}

// cutLastText takes a member off the end of an object, of which the value is a
// text without quotes in it.
func cutLastText(object []byte, name string) (rest, text []byte, ok bool) {
	object, ok = bytes.CutSuffix(object, []byte(`"`))
	quote := bytes.LastIndexByte(object, '"')
	if !ok || quote < 0 {
		return nil, nil, false
	}
	rest, ok = bytes.CutSuffix(object[:quote], []byte(name))
	return rest, object[quote+1:], ok
}

func decodeSealed(sealed []byte, m *MemoryWritten) bool {
	// The base64 decoder skips line ends, which a JSON text can't hold.
	if bytes.IndexByte(sealed, '\n') >= 0 || bytes.IndexByte(sealed, '\r') >= 0 {
		return false
	}
	m.Sealed = make([]byte, base64.StdEncoding.DecodedLen(len(sealed)))
	n, err := strictBase64.Decode(m.Sealed, sealed)
	m.Sealed = m.Sealed[:n]
	return err == nil
}

// decodeLeaf reads what comes before the metadata.
func decodeLeaf(text string, m *MemoryWritten) bool {
	s := scanner{rest: text}
	s.skip(`{"memoryId":"`)
	m.MemoryID = s.until(`","leafIndex":`)
	index, indexed := parseUint(s.until(`,"leafHash":"`))
	hash := s.until(`","leafVersion":`)
	version, versioned := parseUint(s.rest)
	m.LeafIndex, m.LeafVersion = index, int(version)
	return !s.failed && indexed && versioned && version <= math.MaxInt32 && m.LeafHash.UnmarshalText([]byte(hash)) == nil
}

var strictBase64 = base64.StdEncoding.Strict()

// scanner takes a text apart. After a failure it returns nothing but empty
// texts.
type scanner struct {
	rest   string
	failed bool
}

func (s *scanner) skip(literal string) {
	rest, ok := strings.CutPrefix(s.rest, literal)
	s.rest, s.failed = rest, s.failed || !ok
}

// until returns the text before a delimiter, which must be plain, and moves on
// behind it.
func (s *scanner) until(delimiter string) string {
	text, rest, ok := strings.Cut(s.rest, delimiter)
	if s.failed || !ok || !plain(text) {
		s.failed = true
		return ""
	}
	s.rest = rest
	return text
}

// tail reads the last texts of an envelope, of which one is optional.
func (s *scanner) tail(e *Event) {
	text, closed := strings.CutSuffix(s.rest, `"`)
	command, trace, traced := strings.Cut(text, `","traceparent":"`)
	if e.CommandID, e.TraceParent = command, trace; !closed || !plain(command) || !plain(trace) || (traced && trace == "") {
		s.failed = true
	}
}

// plain reports whether a text stands for itself in JSON.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '\\' || c == '"' {
			return false
		}
	}
	return true
}

// parseUint reads a number in the one form that the encoder gives it.
func parseUint(s string) (n uint64, ok bool) {
	if len(s) == 0 || len(s) > 19 || (s[0] == '0' && len(s) > 1) {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + uint64(s[i]-'0')
	}
	return n, true
}
