package recall

import (
	"regexp"
	"strings"
	"unicode"
)

// Plain returns a text as a query that has no syntax.
func Plain(text string) string {
	words := strings.FieldsFunc(beginning(text, 1000), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) })
	return strings.Join(words, " ")
}

// Folded returns a text in which only words and their order count: without case and
// punctuation, with one space between words. A minus before a digit stays.
func Folded(text string) string {
	text = minus.ReplaceAllString(lower(text), "\u2212$1")
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsPunct(r) }), " ")
}

var minus = regexp.MustCompile(`-(\d)`)

// Alike reports whether two texts say nearly the same: they share at least three of four of
// all their words.
func Alike(a, b string) bool {
	words := map[string]int{}
	for i, text := range []string{a, b} {
		eachWord([]byte(text), func(word []byte) { words[foldedWord(string(word))] |= 1 << i })
	}
	shared := 0
	for _, in := range words {
		if in == 3 {
			shared++
		}
	}
	return shared > 0 && 4*shared >= 3*len(words)
}
