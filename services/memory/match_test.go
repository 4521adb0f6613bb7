package memory

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		text, query string
		want        bool
	}{
		{"The Sky", "sky", true}, {"The Sky", "SKY", true}, {"The Sky", "y ", false}, {"", "x", false}, {"abc", "abcd", false},
		{"aab", "AB", true}, {"ÄÖÜ", "äö", true}, {"straße", "STRASSE", false}, {"ΣΊΣΥΦΟΣ", "σίσυφος", true}, {"Kelvin \u212a", "kelvin k", true},
		{"i", "İ", false}, {"ǆ", "Ǆ", true}, {"ǅ", "ǆ", true}, {"a\x00B", "\x00b", true}, {"日本語", "本", true}, {"ſ", "S", true},
	} {
		m := newMatcher(c.query)
		if got := m.match(c.text); got != c.want {
			t.Errorf("%q in %q: %v", c.query, c.text, got)
		}
	}
}

// TestSpellings: there is room for all spellings of every rune, and all of them
// fold to the same.
func TestSpellings(t *testing.T) {
	for r := range rune(unicode.MaxRune) {
		all := spellingsOf(r)
		if len(all) > maxSpellings {
			t.Fatalf("%q has %d spellings", r, len(all))
		}
		for _, s := range all {
			if other, _ := utf8.DecodeRuneInString(s); utf8.ValidRune(r) && fold(other) != fold(r) {
				t.Fatalf("%q folds to %q, %q to %q", r, fold(r), other, fold(other))
			}
		}
	}
}

// FuzzMatch compares with trying strings.EqualFold at every place.
func FuzzMatch(f *testing.F) {
	f.Add("The Sky is Blue", "SKY")
	f.Add("ΣΊΣΥΦΟΣ", "ς")
	f.Add("aAaAaB", "aab")
	f.Add("quiz: QUIZ, quick", "k")
	f.Add("Zażółć gęślą jaźń", "GĘŚLĄ")
	f.Add("\u212aelvin", "kELV")
	f.Fuzz(func(t *testing.T, text, query string) {
		if !utf8.ValidString(text) || !utf8.ValidString(query) {
			return // bodies are always valid
		}
		want := false
		runes, length := []rune(text), utf8.RuneCountInString(query)
		for i := 0; i+length <= len(runes) && !want; i++ {
			want = strings.EqualFold(string(runes[i:i+length]), query)
		}
		m := newMatcher(query)
		if got := m.match(text); got != want {
			t.Fatalf("%q in %q: got %v, want %v", query, text, got, want)
		}
	})
}
