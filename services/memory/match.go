package memory

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// matcher finds a query in texts, whatever the case of either: it compares the
// simple case foldings of Unicode, rune by rune.
type matcher struct {
	folded string
	ascii  bool
}

func newMatcher(query string) matcher {
	folded := strings.Map(fold, query)
	return matcher{folded: folded, ascii: isASCII(query)}
}

func (m matcher) match(text string) bool {
	if m.ascii && isASCII(text) {
		return containsFoldASCII(text, m.folded)
	}
	return strings.Contains(strings.Map(fold, text), m.folded)
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

// containsFoldASCII looks for a folded needle. It jumps from one occurrence of
// the needle's first byte, in either case, to the next.
func containsFoldASCII(text, needle string) bool {
	if needle == "" {
		return true
	}
	lower := needle[0]
	upper := lower
	if 'a' <= lower && lower <= 'z' {
		upper = lower - ('a' - 'A')
	}
	for len(text) >= len(needle) {
		i := strings.IndexByte(text[:len(text)-len(needle)+1], lower)
		if upper != lower {
			end := len(text) - len(needle) + 1
			if i >= 0 {
				end = i
			}
			if j := strings.IndexByte(text[:end], upper); j >= 0 {
				i = j
			}
		}
		if i < 0 {
			return false
		}
		if foldsTo(text[i:i+len(needle)], needle) {
			return true
		}
		text = text[i+1:]
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
