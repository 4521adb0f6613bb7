package canonical

import (
	"bytes"
	"cmp"
	"slices"
	"unicode/utf8"
)

// plain canonicalises in one pass what most metadata is: strings without
// escapes, whole numbers, booleans, null, and objects and arrays of them, their
// names in ASCII. It reports false for anything else, good or bad: the general
// way, several times as slow, then says which. FuzzPlain holds it to that one.
func plain(raw []byte) (string, bool) {
	p := plainReader{in: raw, out: make([]byte, 0, len(raw))}
	if !p.object(1) || p.at != len(raw) {
		return "", false
	}
	return string(p.out), true
}

// ClonePlain returns a copy of an object that is in canonical form and of the kind
// that is read in one pass. Of anything else, canonical or not, it reports false.
func ClonePlain(raw []byte) ([]byte, bool) {
	p := plainReader{in: raw, out: make([]byte, 0, len(raw))}
	if !p.object(1) || p.at != len(raw) || !bytes.Equal(p.out, raw) {
		return nil, false
	}
	return p.out, true
}

// plainReader copies a value from in to out, member by member.
type plainReader struct {
	in  []byte
	at  int // of the next byte of in
	out []byte
}

// plainMember is where a member stands in out: its quoted name from start to
// colon, its value up to end.
type plainMember struct{ start, colon, end int }

// next skips white space and returns the byte that it ends at, 0 at the end.
func (p *plainReader) next() byte {
	for ; p.at < len(p.in); p.at++ {
		switch c := p.in[p.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// take copies the next byte.
func (p *plainReader) take() {
	p.out = append(p.out, p.in[p.at])
	p.at++
}

func (p *plainReader) object(depth int) bool {
	if depth > MaxDepth || p.next() != '{' {
		return false
	}
	p.take()
	if p.next() == '}' {
		p.take()
		return true
	}
	begin, sorted := len(p.out), true
	var few [16]plainMember
	members := few[:0]
	for {
		m := plainMember{start: len(p.out)}
		if p.next() != '"' || !p.text(false) || p.next() != ':' {
			return false
		}
		m.colon = len(p.out)
		p.take()
		if !p.value(depth) {
			return false
		}
		m.end = len(p.out)
		if len(members) > 0 {
			switch order := p.compare(members[len(members)-1], m); {
			case order == 0:
				return false // a name twice
			case order > 0:
				sorted = false
			}
		}
		members = append(members, m)
		switch p.next() {
		case ',':
			p.take()
		case '}':
			if !sorted && !p.sort(begin, members) {
				return false
			}
			p.take()
			return true
		default:
			return false
		}
	}
}

// compare orders names as RFC 8785 does, by UTF-16: the same as by bytes, in
// ASCII.
func (p *plainReader) compare(a, b plainMember) int {
	return bytes.Compare(p.out[a.start+1:a.colon-1], p.out[b.start+1:b.colon-1])
}

// sort puts the members, which begin at begin and end with out, in order.
func (p *plainReader) sort(begin int, members []plainMember) bool {
	slices.SortFunc(members, func(a, b plainMember) int {
		return cmp.Or(p.compare(a, b), cmp.Compare(a.start, b.start))
	})
	sorted := make([]byte, 0, len(p.out)-begin)
	for i, m := range members {
		if i > 0 {
			if p.compare(members[i-1], m) == 0 {
				return false // a name twice
			}
			sorted = append(sorted, ',')
		}
		sorted = append(sorted, p.out[m.start:m.end]...)
	}
	copy(p.out[begin:], sorted)
	return true
}

func (p *plainReader) array(depth int) bool {
	if depth > MaxDepth {
		return false
	}
	p.take()
	if p.next() == ']' {
		p.take()
		return true
	}
	for {
		if !p.value(depth) {
			return false
		}
		switch p.next() {
		case ',':
			p.take()
		case ']':
			p.take()
			return true
		default:
			return false
		}
	}
}

// value copies what stands in something at the given depth.
func (p *plainReader) value(depth int) bool {
	switch c := p.next(); {
	case c == '"':
		return p.text(true)
	case c == '{':
		return p.object(depth + 1)
	case c == '[':
		return p.array(depth + 1)
	case c == 't':
		return p.literal("true")
	case c == 'f':
		return p.literal("false")
	case c == 'n':
		return p.literal("null")
	case c == '-' || (c >= '0' && c <= '9'):
		return p.number()
	}
	return false
}

func (p *plainReader) literal(word string) bool {
	if !bytes.HasPrefix(p.in[p.at:], []byte(word)) {
		return false
	}
	p.out = append(p.out, word...)
	p.at += len(word)
	return true
}

// maxPlainDigits is how many digits any whole number may have that a double
// holds exactly, and that RFC 8785 writes digit by digit.
const maxPlainDigits = 15

// number copies a whole number that is written as RFC 8785 writes it.
func (p *plainReader) number() bool {
	begin := p.at
	if p.in[p.at] == '-' {
		p.at++
	}
	digits := p.at
	for p.at < len(p.in) && p.in[p.at] >= '0' && p.in[p.at] <= '9' {
		p.at++
	}
	switch n := p.at - digits; {
	case n == 0 || n > maxPlainDigits:
		return false
	case p.in[digits] == '0' && (n > 1 || digits > begin): // 00, and -0, which becomes 0
		return false
	}
	// A fraction or an exponent is no way for a value to end, and so refused.
	p.out = append(p.out, p.in[begin:p.at]...)
	return true
}

// text copies a string without escapes; beyond says whether it may hold more
// than ASCII.
func (p *plainReader) text(beyond bool) bool {
	ascii := true
	for i := p.at + 1; i < len(p.in); i++ {
		switch c := p.in[i]; {
		case c == '"':
			text := p.in[p.at : i+1]
			if !ascii && (!beyond || !utf8.Valid(text)) {
				return false
			}
			p.out = append(p.out, text...)
			p.at = i + 1
			return true
		case c < ' ' || c == '\\' || c == 0x7f:
			return false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return false
}
