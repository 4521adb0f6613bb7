package memory

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
	"unsafe"
)

// matcher finds a query in texts, whatever the case of either: it compares the
// simple case foldings of Unicode, rune by rune. It is not safe for concurrent
// use; copies are.
type matcher struct {
	folded string
	ascii  bool
	// rare is the place of the byte in folded that texts hold least often.
	rare   int
	buffer []byte
}

func newMatcher(query string) matcher {
	m := matcher{folded: string(appendFolded(nil, query)), ascii: isASCII(query)}
	for i := range len(m.folded) {
		if commonness[m.folded[i]] < commonness[m.folded[m.rare]] {
			m.rare = i
		}
	}
	return m
}

func (m *matcher) match(text string) bool {
	if m.ascii && isASCII(text) {
		return m.matchASCII(text)
	}
	m.buffer = appendFolded(m.buffer[:0], text)
	return bytes.Contains(m.buffer, unsafe.Slice(unsafe.StringData(m.folded), len(m.folded)))
}

// commonness ranks bytes by how often they occur in ordinary text: space and
// the letters of English in their usual order, then the other letters of other
// languages' UTF-8, then digits and signs.
var commonness = func() (rank [256]uint8) {
	for b := 0x80; b <= 0xff; b++ {
		rank[b] = 10
	}
	const order = "zqxjkvbpgwyfmculdrhsnioate "
	for i := range len(order) {
		rank[order[i]] = uint8(11 + i)
	}
	return rank
}()

// tabled is how many runes have their folding in a table: those of two bytes,
// which are Latin, Greek, Cyrillic, Hebrew and Arabic.
const tabled = 0x800

var foldings = func() (table [tabled]rune) {
	for r := range rune(tabled) {
		table[r] = fold(r)
	}
	return table
}()

func appendFolded(dst []byte, text string) []byte {
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			dst = append(dst, lowerASCII(c))
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if r < tabled {
			r = foldings[r]
		} else {
			r = fold(r)
		}
		dst = utf8.AppendRune(dst, r)
		i += size
	}
	return dst
}

// fold maps a rune to the smallest member of its folding orbit, but ASCII
// letters to lower case.
func fold(r rune) rune {
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			return r + ('a' - 'A')
		}
		return r
	}
	smallest := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		smallest = min(smallest, next)
	}
	// K (Kelvin sign) and long s fold into ASCII letters.
	if 'A' <= smallest && smallest <= 'Z' {
		return smallest + ('a' - 'A')
	}
	return smallest
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func lowerASCII(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}

// matchASCII looks for an ASCII query in an ASCII text. It jumps from one
// occurrence of the query's rarest byte, in either case, to the next.
func (m *matcher) matchASCII(text string) bool {
	needle := m.folded
	if len(text) < len(needle) {
		return false
	}
	if needle == "" {
		return true
	}
	lower := needle[m.rare]
	upper := lower
	if 'a' <= lower && lower <= 'z' {
		upper = lower - ('a' - 'A')
	}
	// Where the rare byte can be, if the needle is to fit around it.
	end := len(text) - (len(needle) - 1 - m.rare)
	for at := m.rare; at < end; at++ {
		next := strings.IndexByte(text[at:end], lower)
		if upper != lower {
			until := end
			if next >= 0 {
				until = at + next
			}
			if i := strings.IndexByte(text[at:until], upper); i >= 0 {
				next = i
			}
		}
		if next < 0 {
			return false
		}
		at += next
		if start := at - m.rare; foldsTo(text[start:start+len(needle)], needle) {
			return true
		}
	}
	return false
}

func foldsTo(text, folded string) bool {
	for i := 0; i < len(folded); i++ {
		if lowerASCII(text[i]) != folded[i] {
			return false
		}
	}
	return true
}
