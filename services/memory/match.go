package memory

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// matcher finds a query in texts, whatever the case of either: it compares the
// simple case foldings of Unicode, rune by rune. It is safe for concurrent use.
//
// It jumps from one place to the next that holds the query's anchor, the rune
// that texts hold least often, in any of its spellings, and compares around it.
// That is quick for what people write. Where it is not, as for zeros in zeros, it
// goes on rune by rune, so that no text takes more than some times its length.
type matcher struct {
	folded []rune
	// borders has, for each place in folded, the length of the longest text that
	// folded up to there both begins and ends with, itself apart.
	borders []int32
	anchor  int // its place in folded
	// spellings are all runes that fold to the anchor, in UTF-8.
	spellings [maxSpellings]string
	count     int // of them
}

// maxSpellings is how many runes at most fold to one; Unicode has four, of
// which one is a capital theta.
const maxSpellings = 4

// patience is how many times a text's length may be spent on comparing around
// anchors.
const patience = 16

func newMatcher(query string) matcher {
	m := matcher{folded: []rune(query)}
	best := math.MaxInt
	for i, r := range m.folded {
		m.folded[i] = fold(r)
		spellings := spellingsOf(r)
		rank := 0
		for _, s := range spellings {
			rank += int(rankOf(s))
		}
		if rank < best {
			best, m.anchor = rank, i
			m.count = copy(m.spellings[:], spellings)
		}
	}
	m.borders = make([]int32, len(m.folded))
	for i, length := 1, 0; i < len(m.folded); i++ {
		length = m.grow(length, m.folded[i])
		m.borders[i] = int32(length)
	}
	return m
}

// grow returns how much of the query a text ends with that ended with length
// runes of it, fewer than all, and goes on with r.
func (m *matcher) grow(length int, r rune) int {
	for m.folded[length] != r {
		if length == 0 {
			return 0
		}
		length = int(m.borders[length-1])
	}
	return length + 1
}

// spellingsOf returns the runes that fold to the same as r.
func spellingsOf(r rune) (all []string) {
	all = append(all, string(r))
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		all = append(all, string(next))
	}
	return all
}

// rankOf says how often texts hold a rune, and each spelling costs a search
// through the text.
func rankOf(spelling string) uint16 {
	const search = 8
	rank := uint16(math.MaxUint8)
	for i := range len(spelling) {
		rank = min(rank, uint16(commonness[lowerASCII(spelling[i])]))
	}
	return rank + search
}

func (m *matcher) match(text string) bool {
	if len(m.folded) == 0 {
		return true
	}
	// next is where each spelling is found next, len(text) where nowhere.
	var next [maxSpellings]int
	for i, s := range m.spellings[:m.count] {
		next[i] = indexFrom(text, 0, s)
	}
	for left := patience * len(text); ; left -= len(m.folded) {
		if left < 0 {
			return m.matchSlowly(text)
		}
		first := 0
		for i := 1; i < m.count; i++ {
			if next[i] < next[first] {
				first = i
			}
		}
		at := next[first]
		if at == len(text) {
			return false
		}
		after := at + len(m.spellings[first])
		if m.before(text[:at]) && m.after(text[after:]) {
			return true
		}
		next[first] = indexFrom(text, after, m.spellings[first])
	}
}

// matchSlowly looks at each rune of the text once (Knuth, Morris and Pratt).
func (m *matcher) matchSlowly(text string) bool {
	length := 0
	for _, r := range text {
		if length = m.grow(length, foldTabled(r)); length == len(m.folded) {
			return true
		}
	}
	return false
}

// indexFrom is where s is found in text from a place on, len(text) if nowhere.
func indexFrom(text string, from int, s string) int {
	var i int
	if len(s) == 1 {
		i = strings.IndexByte(text[from:], s[0])
	} else {
		i = strings.Index(text[from:], s)
	}
	if i < 0 {
		return len(text)
	}
	return from + i
}

// before reports whether text ends with what the query has before its anchor.
func (m *matcher) before(text string) bool {
	for i := m.anchor - 1; i >= 0; i-- {
		if text == "" {
			return false
		}
		if c := text[len(text)-1]; c < utf8.RuneSelf {
			if rune(lowerASCII(c)) != m.folded[i] {
				return false
			}
			text = text[:len(text)-1]
			continue
		}
		r, size := utf8.DecodeLastRuneInString(text)
		if foldTabled(r) != m.folded[i] {
			return false
		}
		text = text[:len(text)-size]
	}
	return true
}

// after reports whether text begins with what the query has after its anchor.
func (m *matcher) after(text string) bool {
	for _, want := range m.folded[m.anchor+1:] {
		if text == "" {
			return false
		}
		if c := text[0]; c < utf8.RuneSelf {
			if rune(lowerASCII(c)) != want {
				return false
			}
			text = text[1:]
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		if foldTabled(r) != want {
			return false
		}
		text = text[size:]
	}
	return true
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

func foldTabled(r rune) rune {
	if r < tabled {
		return foldings[r]
	}
	return fold(r)
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

func lowerASCII(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}
