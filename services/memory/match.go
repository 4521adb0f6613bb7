package memory

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// matcher finds a query in texts, whatever the case of either: it compares the
// simple case foldings of Unicode, rune by rune. It is safe for concurrent use,
// but for learn.
//
// It jumps from one place to the next that holds the query's anchor, the rune
// that is found soonest to be absent, in any of its spellings, and compares around
// it. That is quick for what people write. Where it is not, as for zeros in zeros,
// it goes on rune by rune, so that no text takes more than some times its length.
type matcher struct {
	folded []rune
	// borders has, for each place in folded, the length of the longest text that
	// folded up to there both begins and ends with, itself apart.
	borders []int32
	anchor  int // its place in folded
	// spellings are all runes that fold to the anchor, in UTF-8.
	spellings [maxSpellings]string
	count     int // of them
	expected  int // how many of a thousand bytes of text begin one
}

const (
	// maxSpellings is how many runes at most fold to one; Unicode has four, of
	// which one is a capital theta.
	maxSpellings = 4
	// patience is how many runes may be compared around anchors for each byte of a
	// text. Ordinary text takes a hundredth of that.
	patience = 2
	// candidates is how many runes of a query may become its anchor. More would
	// cost more than they find.
	candidates = 128
)

func newMatcher(query string) matcher {
	m := matcher{folded: []rune(query)}
	for i, r := range m.folded {
		m.folded[i] = foldTabled(r)
	}
	m.choose(&ordinary)
	m.borders = make([]int32, len(m.folded))
	for i, length := 1, 0; i < len(m.folded); i++ {
		length = m.grow(length, m.folded[i])
		m.borders[i] = int32(length)
	}
	return m
}

// choose makes the rune the anchor that costs least in text of which so many
// bytes of a thousand are what they are.
func (m *matcher) choose(perMille *[256]uint16) {
	// To look for a spelling costs as much as to stop at one of 200 bytes.
	const search = 5
	best := math.MaxInt
	for i, r := range m.folded[:min(len(m.folded), candidates)] {
		spellings, expected := spellingsOf(r), 0
		for _, s := range spellings {
			expected += rarest(s, perMille)
		}
		if cost := expected + search*len(spellings); cost < best {
			best, m.anchor, m.expected = cost, i, expected
			m.count = copy(m.spellings[:], spellings)
		}
	}
}

// rarest is how many bytes of a thousand are the one that text holds least often
// of a spelling's.
func rarest(spelling string, perMille *[256]uint16) int {
	least := perMille[spelling[0]]
	for i := 1; i < len(spelling); i++ {
		least = min(least, perMille[spelling[i]])
	}
	return int(least)
}

// learn chooses another anchor by what texts hold, where the present one was met
// in them so many times that it was no good choice: the language is another one
// than was thought, or all is numbers.
func (m *matcher) learn(texts string, met int) {
	const (
		few    = 10 // of a thousand bytes, which costs less than to decrypt them
		sample = 4096
	)
	if met*1000 <= 2*max(m.expected, few)*len(texts) {
		return
	}
	texts = texts[:min(len(texts), sample)]
	var perMille [256]uint16
	for i := range len(texts) {
		perMille[texts[i]]++
	}
	for b, n := range perMille {
		perMille[b] = uint16(int(n) * 1000 / len(texts))
	}
	m.choose(&perMille)
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

// match reports whether a text contains the query.
func (m *matcher) match(text string) bool {
	if len(m.folded) == 0 {
		return true
	}
	// next is where each spelling is found next, len(text) where nowhere.
	var next [maxSpellings]int
	for i, s := range m.spellings[:m.count] {
		next[i] = indexFrom(text, 0, s)
	}
	for left := patience * len(text); ; {
		if left < 0 {
			return m.matchSlowly(text)
		}
		first := m.nearest(&next)
		at := next[first]
		if at == len(text) {
			return false
		}
		after := at + len(m.spellings[first])
		compared, equal := m.around(text[:at], text[after:])
		if equal {
			return true
		}
		left -= compared
		next[first] = indexFrom(text, after, m.spellings[first])
	}
}

// matchEach calls yield with each text that contains the query, which is not
// empty, and its number, in order. The texts lie side by side from a start on;
// ends has the index after each. It jumps over all that hold no anchor at once,
// and returns how many anchors it met.
func (m *matcher) matchEach(texts string, start int, ends []uint32, yield func(i int, text string)) (met int) {
	i := 0 // the number of the text that begins at start
	// next is where each spelling is found next, len(texts) where nowhere.
	var next [maxSpellings]int
	for n, s := range m.spellings[:m.count] {
		next[n] = indexFrom(texts, start, s)
	}
	for left := patience * (len(texts) - start); ; {
		first := m.nearest(&next)
		at := next[first]
		if at == len(texts) {
			return met
		}
		met++
		for int(ends[i]) <= at {
			start = int(ends[i])
			i++
		}
		if left < 0 {
			m.eachSlowly(texts, start, ends, i, yield)
			return met
		}
		end, after := int(ends[i]), at+len(m.spellings[first])
		// What is not UTF-8 could have an anchor that begins in one text and ends in
		// the next.
		compared, equal := 1, false
		if after <= end {
			compared, equal = m.around(texts[start:at], texts[after:end])
		}
		left -= compared
		if !equal {
			next[first] = indexFrom(texts, after, m.spellings[first])
			continue
		}
		yield(i, texts[start:end])
		for n, s := range m.spellings[:m.count] {
			if next[n] < end {
				next[n] = indexFrom(texts, end, s)
			}
		}
	}
}

// nearest is the number of the spelling that is found first.
func (m *matcher) nearest(next *[maxSpellings]int) (first int) {
	for i := 1; i < m.count; i++ {
		if next[i] < next[first] {
			first = i
		}
	}
	return first
}

// eachSlowly is matchEach by matchSlowly, for texts from number i on.
func (m *matcher) eachSlowly(texts string, start int, ends []uint32, i int, yield func(i int, text string)) {
	for ; i < len(ends); i++ {
		if text := texts[start:ends[i]]; m.matchSlowly(text) {
			yield(i, text)
		}
		start = int(ends[i])
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

// around reports whether the query's other runes stand around an anchor, and how
// many runes it compared, that of the anchor included.
func (m *matcher) around(before, after string) (compared int, equal bool) {
	unequal := m.before(before)
	if unequal > 0 {
		return 1 + m.anchor - (unequal - 1), false
	}
	compared, equal = m.after(after)
	return 1 + m.anchor + compared, equal
}

// before returns 0 where text ends with what the query has before its anchor, and
// otherwise how many runes of that were not reached, and the one that differs.
func (m *matcher) before(text string) (unequal int) {
	for i := m.anchor - 1; i >= 0; i-- {
		if text == "" {
			return i + 1
		}
		if c := text[len(text)-1]; c < utf8.RuneSelf {
			if rune(lowerASCII(c)) != m.folded[i] {
				return i + 1
			}
			text = text[:len(text)-1]
			continue
		}
		r, size := utf8.DecodeLastRuneInString(text)
		if foldTabled(r) != m.folded[i] {
			return i + 1
		}
		text = text[:len(text)-size]
	}
	return 0
}

// after reports whether text begins with what the query has after its anchor, and
// how many runes it compared.
func (m *matcher) after(text string) (compared int, equal bool) {
	for i, want := range m.folded[m.anchor+1:] {
		if text == "" {
			return i, false
		}
		if c := text[0]; c < utf8.RuneSelf {
			if rune(lowerASCII(c)) != want {
				return i + 1, false
			}
			text = text[1:]
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		if foldTabled(r) != want {
			return i + 1, false
		}
		text = text[size:]
	}
	return len(m.folded) - m.anchor - 1, true
}

// ordinary is how many of a thousand bytes of ordinary text are what they are:
// English, with a few digits and signs, and now and then another language.
var ordinary = func() (perMille [256]uint16) {
	for b := range perMille {
		perMille[b] = 5
		if b >= utf8.RuneSelf {
			perMille[b] = 10
		}
	}
	perMille[' '] = 170
	for i, n := range [26]uint16{65, 12, 22, 34, 102, 18, 16, 49, 56, 1, 6, 33, 19, 57, 60, 15, 1, 48, 51, 73, 22, 8, 19, 1, 16, 1} {
		perMille['a'+i] = n
		perMille['A'+i] = 1 + n/20
	}
	return perMille
}()

// foldings has the foldings of 256 runes at a time, nil where each is its own. The
// package unicode looks a rune up in lists, which takes 50 to 200 ns: a text of
// Cherokee would take as long as one fifty times its length.
var foldings = func() (table [unicode.MaxRune>>8 + 1]*[256]rune) {
	for _, cased := range unicode.CaseRanges { // no other rune folds
		for r := rune(cased.Lo); r <= rune(cased.Hi); r++ {
			if table[r>>8] == nil {
				table[r>>8] = new([256]rune)
				for i := range table[r>>8] {
					table[r>>8][i] = r&^0xff | rune(i)
				}
			}
			table[r>>8][r&0xff] = fold(r)
		}
	}
	return table
}()

// foldTabled is fold by a table.
func foldTabled(r rune) rune {
	if block := foldings[r>>8]; block != nil {
		return block[r&0xff]
	}
	return r
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
