package memory

import (
	"math/rand/v2"
	"slices"
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

// together is texts side by side, and where each ends.
func together(texts []string) (all string, ends []uint32) {
	for _, text := range texts {
		all += text
		ends = append(ends, uint32(len(all)))
	}
	return all, ends
}

// checkEach holds matchEach, for all texts and for those from one on, against
// match of each.
func checkEach(t *testing.T, m *matcher, query string, texts []string, from int) {
	t.Helper()
	all, ends := together(texts)
	for _, from := range []int{0, from} {
		start := 0
		if from > 0 {
			start = int(ends[from-1])
		}
		var want, got []int
		for i, text := range texts[from:] {
			if m.match(text) {
				want = append(want, i)
			}
		}
		m.matchEach(all, start, ends[from:], func(i int, text string) {
			if text != texts[from+i] {
				t.Fatalf("text %d is %q, not %q", from+i, text, texts[from+i])
			}
			got = append(got, i)
		})
		if !slices.Equal(got, want) {
			t.Fatalf("%q in %q from %d on: in %d together, in %d one by one", query, texts, from, got, want)
		}
	}
}

// TestMatchEach: texts that lie side by side are found as each by itself, and as
// what a search means by it, whatever rune is the anchor. None is found by what
// another one begins or ends with.
func TestMatchEach(t *testing.T) {
	t.Parallel()
	chance := rand.New(rand.NewPCG(5, 5))
	found, across := 0, 0
	for range 3000 {
		texts := make([]string, chance.IntN(12))
		for i := range texts {
			for range chance.IntN(4) {
				texts[i] += words[chance.IntN(len(words))]
			}
		}
		all, _ := together(texts)
		// Whatever is in them, and whatever only lies across two of them.
		query := words[chance.IntN(len(words))]
		if runes := []rune(all); len(runes) > 1 && chance.IntN(2) == 0 {
			at := chance.IntN(len(runes) - 1)
			query = swapCase(string(runes[at : at+1+chance.IntN(min(12, len(runes)-at))]))
		}
		m := newMatcher(query)
		if all != "" && chance.IntN(2) == 0 {
			m.learn(all, len(all)+1)
		}
		within := false
		for _, text := range texts {
			want := contains(text, query)
			if got := m.match(text); got != want {
				t.Fatalf("%q in %q: %v", query, text, got)
			}
			within = within || want
		}
		if within {
			found++
		} else if contains(all, query) {
			across++
		}
		checkEach(t, &m, query, texts, chance.IntN(len(texts)+1))
	}
	if found < 500 || across < 100 {
		t.Errorf("%d queries were in a text, %d across two", found, across)
	}
}

func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, s)
}

// FuzzMatchEach: texts are what lies between zeros, and need not be UTF-8 for
// none to be found by what another one begins with.
func FuzzMatchEach(f *testing.F) {
	f.Add("The Sky\x00is Blue", "SKY", 1)
	f.Add("ab\x00c\x00abc\x00\x00aabc", "abc", 2)
	f.Add("00000\x00000000000\x001", "0000001", 0)
	f.Add("a\xe2\x84\x00\xaab\x00\u212ab", "kb", 0)
	f.Add("die Katze schl\x00äft\x00SCHLÄFT", "schläft", 1)
	f.Fuzz(func(t *testing.T, joined, query string, from int) {
		if query == "" {
			return // is not looked for
		}
		texts := strings.Split(joined, "\x00")
		m := newMatcher(query)
		if utf8.ValidString(joined) && utf8.ValidString(query) {
			for _, text := range texts {
				if got, want := m.match(text), contains(text, query); got != want {
					t.Fatalf("%q in %q: got %v, want %v", query, text, got, want)
				}
			}
		} else if strings.ContainsRune(query, utf8.RuneError) || !utf8.ValidString(query) {
			return // slowly, it is found in what is no rune
		}
		checkEach(t, &m, query, texts, max(0, from)%(len(texts)+1))
	})
}

// TestLearn: where texts hold another anchor less often than the one that was
// chosen beforehand, it is taken from then on; where they don't, nothing changes.
func TestLearn(t *testing.T) {
	t.Parallel()
	anchor := func(m *matcher) string { return strings.ToLower(m.spellings[0]) }
	for _, c := range []struct{ query, text, first, then string }{
		{"Number 7: cat", "memory number 12: a dog sleeps. ", "7", "7"},
		{"7: cat", "once in a while there is a number, as 7 is, but not in most of what people write, nor a colon. ", "7", "7"},
		{"temp 8", "1708 8880 0878 8018 ", "8", "t"},
		{"дом на холме", "мама мыла раму, мыло мялось, ", "м", "н"},
		{"a cat", "the cat ate a rat at the gate and ran ", "c", "c"},
	} {
		m, texts := newMatcher(c.query), strings.Repeat(c.text, 200)
		if got := anchor(&m); got != c.first {
			t.Errorf("%q: looks for %q first", c.query, got)
		}
		m.learn(texts, m.matchEach(texts, 0, []uint32{uint32(len(texts))}, func(int, string) {}))
		if got := anchor(&m); got != c.then {
			t.Errorf("%q in %.20q: looks for %q then", c.query, c.text, got)
		}
	}
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
	// The same of some that lie side by side, of which the last one matches.
	all, ends := together([]string{zeros, "1", half, half + "1"})
	for _, query := range []string{half + "1", "1" + half} {
		m, got := newMatcher(query), []int(nil)
		m.matchEach(all, 0, ends, func(i int, _ string) { got = append(got, i) })
		if query[0] == '0' != slices.Equal(got, []int{3}) || query[0] == '1' && got != nil {
			t.Errorf("%.5q...: in texts %d", query, got)
		}
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestEveryFoldingIsInTheTable compares it with what package unicode says.
func TestEveryFoldingIsInTheTable(t *testing.T) {
	t.Parallel()
	for r := range rune(unicode.MaxRune + 1) {
		if got, want := foldTabled(r), fold(r); got != want {
			t.Errorf("%U folds to %U, not %U", r, want, got)
		}
	}
}

// TestRepeatsAreSearchedInTime: where a query nearly matches everywhere, what is
// compared around anchors ends after some times the text's length.
func TestRepeatsAreSearchedInTime(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]string{"zeros": "0", "Cherokee": "Ꭰ", "Han": "好", "Deseret": "𐐀"} {
		m := newMatcher(strings.Repeat(r, 1000) + "x")
		text := strings.Repeat(r, 20_000)
		compared := 0
		for at := 0; at < len(text) && compared <= patience*len(text); at += len(r) {
			n, equal := m.around(text[:at], text[at+len(r):])
			if compared += n; equal || n < 1 || n > 1001 {
				t.Fatalf("%s: %d compared at %d, equal: %v", name, n, at, equal)
			}
		}
		if m.match(text) || !m.match(text+"x") {
			t.Errorf("%s: found where it is not, or not where it is", name)
		}
	}
	// Where the first rune differs, one is compared, whatever the query's length.
	m := newMatcher("q" + strings.Repeat("long ", 200))
	if n, equal := m.around("", "uite another text"); n != 2 || equal {
		t.Errorf("%d compared, equal: %v", n, equal)
	}
}

func BenchmarkRepeats(b *testing.B) {
	for name, r := range map[string]string{"zeros": "0", "Cherokee": "Ꭰ", "Han": "好", "Deseret": "𐐀", "Georgian": "ა"} {
		m := newMatcher(strings.Repeat(r, 1000) + "x")
		text := strings.Repeat(r, (256<<10)/len(r))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				m.match(text)
			}
		})
	}
}
