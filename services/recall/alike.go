package recall

import (
	"cmp"
	"regexp"
	"slices"
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
func Alike(a, b string) bool { return shared(wordsIn(a), wordsIn(b)) >= 0.75 }

// Candidate is a hit whose text is known.
type Candidate struct {
	Hit
	Text    []byte
	Created uint32
}

// NewerFirst exchanges the scores of candidates, the best first, so that the newer stands
// first of those that say nearly the same: they answer about as well, and share half of all
// their words, as "Ada lives in Oslo" and "Ada lives in Porto" do.
func NewerFirst(all []Candidate) {
	words := make([]map[string]bool, len(all))
	for i, c := range all {
		words[i] = wordsIn(string(beginning(c.Text, 2000)))
	}
	done := make([]bool, len(all))
	for i := range all {
		var same []int
		for j := i; j < len(all) && all[j].Score >= 0.8*all[i].Score; j++ {
			if !done[j] && shared(words[i], words[j]) >= 0.5 {
				same, done[j] = append(same, j), true
			}
		}
		scores := make([]float64, len(same))
		for k, j := range same {
			scores[k] = all[j].Score
		}
		slices.SortStableFunc(same, func(a, b int) int {
			return cmp.Or(cmp.Compare(all[b].Created, all[a].Created), cmp.Compare(all[b].Leaf, all[a].Leaf))
		})
		for k, j := range same {
			all[j].Score = scores[k]
		}
	}
}

func wordsIn(text string) map[string]bool {
	words := map[string]bool{}
	eachWord([]byte(text), func(word []byte) { words[foldedWord(string(word))] = true })
	return words
}

// shared returns the part of all words of two texts that both have.
func shared(a, b map[string]bool) float64 {
	both := 0
	for word := range a {
		if b[word] {
			both++
		}
	}
	return float64(both) / float64(max(1, len(a)+len(b)-both))
}
