package search

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

const maxText = 256 << 10 // bytes of the longest stored text

// words are the parts of texts and queries.
var words = []string{
	"cat", "Cat", "CAT", "sleeps", "ſleeps", "Kelvin", "\u212aelvin", "Straße", "schläft", "SCHLÄFT", "σίσυφος", "ΣΊΣΥΦΟΣ",
	"日本語", "дом", "ДОМ", "\x00", "🐈", " ", "1", "on the warm chair",
}

// contains tries the query at every place of a text.
func contains(text, query string) bool {
	runes, length := []rune(text), utf8.RuneCountInString(query)
	for i := 0; i+length <= len(runes); i++ {
		if strings.EqualFold(string(runes[i:i+length]), query) {
			return true
		}
	}
	return false
}

// textsOf puts texts side by side.
func textsOf(texts ...string) (all Texts) {
	for _, text := range texts {
		all = all.Append([]byte(text))
	}
	return all
}

// in reports whether a text contains a query.
func in(text string, q *Query) bool {
	found := false
	textsOf(text).Find(q, func(int) { found = true })
	return found
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, query string
		want        bool
	}{
		{"The Sky", "sky", true}, {"The Sky", "SKY", true}, {"The Sky", "y ", false}, {"", "x", false}, {"abc", "abcd", false},
		{"aab", "AB", true}, {"ÄÖÜ", "äö", true}, {"straße", "STRASSE", false}, {"ΣΊΣΥΦΟΣ", "σίσυφος", true}, {"Kelvin \u212a", "kelvin k", true},
		{"i", "İ", false}, {"ǆ", "Ǆ", true}, {"ǅ", "ǆ", true}, {"a\x00B", "\x00b", true}, {"日本語", "本", true}, {"ſ", "S", true},
	} {
		if got := in(c.text, NewQuery(c.query)); got != c.want {
			t.Errorf("%q in %q: %v", c.query, c.text, got)
		}
	}
}

// FuzzMatch compares a search with strings.EqualFold at every place of the text.
func FuzzMatch(f *testing.F) {
	f.Add("The Sky is Blue", "SKY")
	f.Add("ΣΊΣΥΦΟΣ", "ς")
	f.Add("aAaAaB", "aab")
	f.Add("quiz: QUIZ, quick", "k")
	f.Add("Zażółć gęślą jaźń", "GĘŚLĄ")
	f.Add("\u212aelvin", "kELV")
	f.Add("some more than eight CAPITALS AND ZEROS 000", "Zeros 00")
	f.Fuzz(func(t *testing.T, text, query string) {
		if query == "" || !utf8.ValidString(text) || !utf8.ValidString(query) {
			return // bodies are always valid, and an empty query is never searched for
		}
		want := contains(text, query)
		if got := in(text, NewQuery(query)); got != want {
			t.Fatalf("%q in %q: got %v, want %v", query, text, got, want)
		}
	})
}

// FuzzFind splits its input into texts at zero bytes. A search in the joined texts must
// find the same as a search in each text alone. No match may reach into the next text,
// even if the texts are not UTF-8.
func FuzzFind(f *testing.F) {
	f.Add("The Sky\x00is Blue", "SKY")
	f.Add("ab\x00c\x00abc\x00\x00aabc", "abc")
	f.Add("00000\x00000000000\x001", "0000001")
	f.Add("a\xe2\x84\x00\xaab\x00\u212ab", "kb")
	f.Add("die Katze schl\x00äft\x00SCHLÄFT", "schläft")
	f.Fuzz(func(t *testing.T, joined, query string) {
		if query != "" {
			checkFind(t, strings.Split(joined, "\x00"), query)
		}
	})
}

func checkFind(t *testing.T, texts []string, query string) (found int) {
	t.Helper()
	q := NewQuery(query)
	var want, got []int
	for i, text := range texts {
		if in(text, q) {
			want = append(want, i)
		}
	}
	all := textsOf(texts...)
	all.Find(q, func(i int) { got = append(got, i) })
	if n := len(slices.Collect(all.All())); !slices.Equal(got, want) || n != len(texts) {
		t.Fatalf("%q in %q: in %d together, in %d one by one", query, texts, got, want)
	}
	return len(want)
}

// TestFind: a search in joined texts finds the same as a search in each text alone. No
// match combines the end of one text and the beginning of the next.
func TestFind(t *testing.T) {
	t.Parallel()
	chance := rand.New(rand.NewPCG(5, 5))
	found, across := 0, 0
	for range 3000 {
		texts := make([]string, 1+chance.IntN(12))
		for i := range texts {
			for range chance.IntN(4) {
				texts[i] += words[chance.IntN(len(words))]
			}
		}
		all := strings.Join(texts, "")
		query := words[chance.IntN(len(words))]
		if runes := []rune(all); len(runes) > 1 && chance.IntN(2) == 0 {
			at := chance.IntN(len(runes) - 1)
			query = []func(string) string{strings.ToUpper, strings.ToLower}[chance.IntN(2)](string(runes[at : at+1+chance.IntN(min(12, len(runes)-at))]))
		}
		q := NewQuery(query)
		for _, text := range texts {
			if want := contains(text, query); in(text, q) != want {
				t.Fatalf("%q in %q: %v", query, text, !want)
			}
		}
		if checkFind(t, texts, query) > 0 {
			found++
		} else if contains(all, query) {
			across++
		}
	}
	if found < 500 || across < 100 {
		t.Errorf("%d queries were in a text, %d across two", found, across)
	}
}

// TestNoTextTakesLong: the time is a small multiple of the text's length, however nearly
// the query matches at each place.
func TestNoTextTakesLong(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("0", maxText)
	half := zeros[:len(zeros)/2]
	morse := [2]string{"a", "b"} // Thue-Morse words, which collide in the rolling hash of bytes.Index
	for len(morse[0]) < 1024 {
		morse = [2]string{morse[0] + morse[1], morse[1] + morse[0]}
	}
	begun := time.Now()
	for _, c := range []struct {
		text, query string
		want        bool
	}{
		{zeros, half + "1", false}, {zeros, "1" + half, false}, {zeros[:len(zeros)-1] + "1", half + "1", true},
		{zeros, half + "1" + half, false}, {zeros, half + "10", false}, {strings.Repeat("0K", len(zeros)/2), strings.Repeat("0k", len(half)/2) + "00", false},
		{zeros, zeros[:62] + "1", false}, {zeros, zeros[:63] + "1", false}, {zeros, "1" + zeros[:62], false},
		{strings.Repeat(morse[1], maxText/len(morse[1])), strings.Repeat(morse[1], maxText/len(morse[1])/2) + morse[0], false},
		{strings.Repeat("Ꭰ", maxText/3), strings.Repeat("Ꭰ", 20_000) + "x", false},
		{strings.Repeat("𐐀", maxText/4), strings.Repeat("𐐀", 20_000) + "x", false},
	} {
		if got := in(c.text, NewQuery(c.query)); got != c.want {
			t.Errorf("%.20q... of %d: %v", c.query, len(c.query), got)
		}
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestEveryFoldingIsInTheTable compares the table with the package unicode, rune by rune
// and eight bytes at a time.
func TestEveryFoldingIsInTheTable(t *testing.T) {
	t.Parallel()
	for r := range rune(unicode.MaxRune + 1) {
		want := fold(r)
		if got := foldTabled(r); got != want {
			t.Errorf("%U folds to %U, not %U", r, want, got)
		}
		if utf8.ValidRune(r) && utf8.RuneLen(want) > utf8.RuneLen(r) {
			t.Errorf("%U folds to %U, which is longer", r, want)
		}
		if r < utf8.RuneSelf {
			if got := string(appendFolded(nil, []byte(strings.Repeat(string(r), 9)))); got != strings.Repeat(string(want), 9) {
				t.Errorf("nine times %U fold to %q", r, got)
			}
		}
	}
}
