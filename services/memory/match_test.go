package memory

import (
	"strings"
	"testing"
	"time"
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
		if got := query == "" || m.matchSlowly(text); got != want {
			t.Fatalf("%q in %q, slowly: got %v, want %v", query, text, got, want)
		}
	})
}

// TestNoTextTakesLong: what is compared again at every place is compared some
// times, not as often as there are places.
func TestNoTextTakesLong(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("0", MaxContentBytes)
	half := zeros[:len(zeros)/2]
	begun := time.Now()
	for _, c := range []struct {
		text, query string
		want        bool
	}{
		{zeros, half + "1", false}, {zeros, "1" + half, false}, {zeros[:len(zeros)-1] + "1", half + "1", true},
		{zeros, half + "1" + half, false}, {zeros, half + "10", false}, {strings.Repeat("0K", len(zeros)/2), strings.Repeat("0k", len(half)/2) + "00", false},
	} {
		m := newMatcher(c.query)
		if got := m.match(c.text); got != c.want {
			t.Errorf("%.20q... of %d: %v", c.query, len(c.query), got)
		}
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}
