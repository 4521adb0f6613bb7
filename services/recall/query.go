package recall

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a query. Anything beyond them is ignored.
const (
	maxConcepts = 64
	maxPhrases  = 16
)

// Query is a question in words. It is safe for concurrent use.
type Query struct {
	// any are concepts of which a memory has at least one. Function words are among them
	// only if the query has no other words.
	any []concept
	// must and not are phrases that a memory must have, and must not have.
	must, not []phrase
	excluded  []string // the texts of not
	empty     bool     // no question: all memories match
	keyword   bool     // no question, but one word
}

// Excluded returns the words and phrases that a memory must not have, as they were written.
func (q *Query) Excluded() []string { return q.excluded }

// concept is a word of a query, or all words with a prefix.
type concept struct {
	word   string
	prefix bool
	// related is the word's id in the table of related words, 0 if it has no relatives.
	related uint16
	light   bool // it says little
}

// phrase is a sequence of adjacent words.
type phrase []concept

// ParseQuery reads a query: words, "phrases in quotes", -words and -"phrases" after a word,
// which a memory must not have, and prefixes such as wor*. No text is malformed: text without
// such a meaning is a word, or nothing.
func ParseQuery(text string) *Query {
	text = beginning(text, 16<<10)
	q := &Query{empty: strings.TrimSpace(text) == ""}
	var plain, functional []concept
	phrased := 0
	follows := false // there is a word before
	for rest := text; rest != ""; {
		piece, negated, quoted := "", false, false
		piece, negated, quoted, rest = nextPiece(rest, follows)
		words := wordsOf(piece)
		if len(words) == 0 {
			continue
		}
		follows = true
		if last := &words[len(words)-1]; !quoted && strings.HasSuffix(piece, last.word+"*") {
			last.prefix = true
		}
		fits := phrased+len(words) <= maxConcepts+1 // each is looked up in every text; the longest phrase fits
		switch {
		case negated && fits && len(q.not) < maxPhrases:
			phrased += len(words)
			q.not = append(q.not, words)
			q.excluded = append(q.excluded, piece)
		case negated:
		case quoted && fits && len(q.must) < maxPhrases:
			phrased += len(words)
			q.must = append(q.must, words)
			q.add(words...)
		default:
			plain = append(plain, words...)
		}
	}
	english := isEnglish(plain)
	for i, c := range plain {
		in := functionWords[foldedWord(c.word)]
		switch {
		case c.prefix:
			q.add(c)
		case english && in.has(inEnglish), !english && in != 0:
			functional = append(functional, c)
		case english:
			q.add(c.inEnglish(i == 0))
		default:
			q.add(c)
		}
	}
	if len(q.any) == 0 {
		q.add(functional...)
	}
	q.keyword = len(q.any) == 1 && len(functional) == 0
	return q
}

// isEnglish reports whether words are English: by the function words among them, or
// because English knows all of them but one of many. A single function word of another
// language means nothing then: "car" is one of French, "son" one of Spanish.
func isEnglish(words []concept) bool {
	var votes vote
	known := 0
	for _, c := range words {
		folded := foldedWord(c.word)
		for s := functionWords[folded]; s != 0; s &= s - 1 {
			votes[first(s)]++
		}
		if functionWords[folded].has(inEnglish) || inTable().ids[Term(c.word)] != 0 {
			known++
		}
	}
	most := votes.winner()
	return most == inEnglish || votes[most] <= 1 && known > 0 && known >= len(words)-len(words)/4
}

// inEnglish returns the concept of a word in an English query. A name, in upper case where
// no sentence begins, has no relatives: they are other names.
func (c concept) inEnglish(begins bool) concept {
	term := Term(c.word)
	c.light = inTable().light[term]
	r, _ := utf8.DecodeRuneInString(c.word)
	if begins || !unicode.IsUpper(r) {
		c.related = inTable().ids[term]
	}
	return c
}

func (q *Query) add(concepts ...concept) {
	for _, c := range concepts {
		if len(q.any) < maxConcepts && !slices.Contains(q.any, c) {
			q.any = append(q.any, c)
		}
	}
}

// nextPiece cuts the next word or phrase off a query.
//
// A minus excludes only after a space that follows a word, and before two letters: "-5
// degrees", "tar -x", "uteke-cloud" and a pasted list with hyphens mean what they say.
func nextPiece(text string, follows bool) (piece string, negated, quoted bool, rest string) {
	before := text
	text = strings.TrimLeft(text, " \t\r\n\u00a0\u3000")
	if text == "" {
		return "", false, false, ""
	}
	spaced := follows && strings.ContainsAny(before[:len(before)-len(text)], " \u00a0\u3000") && !strings.ContainsAny(before[:len(before)-len(text)], "\r\n")
	if excluded, found := strings.CutPrefix(text, "-"); found && spaced && hasTwoLetters(excluded) {
		negated, text = true, excluded
	}
	for open, closing := range quotes {
		if after, found := strings.CutPrefix(text, open); found {
			if inner, after, found := strings.Cut(after, closing); found {
				return inner, negated, true, after
			}
		}
	}
	end := strings.IndexAny(text, " \t\r\n\u00a0\u3000")
	if end < 0 {
		return text, negated, false, ""
	}
	return text[:end], negated, false, text[end:]
}

var quotes = map[string]string{`"`: `"`, "“": "”", "„": "“", "«": "»", "「": "」"}

// hasTwoLetters reports whether a text begins with two letters, perhaps in quotes.
func hasTwoLetters(text string) bool {
	for open := range quotes {
		text = strings.TrimPrefix(text, open)
	}
	first, size := utf8.DecodeRuneInString(text)
	second, _ := utf8.DecodeRuneInString(text[size:])
	return unicode.IsLetter(first) && (unicode.IsLetter(second) || unicode.IsMark(second))
}

// wordsOf returns the words of a piece. It leaves out the last character of a run of
// pairs. Texts index that character alone, so that a query of one character finds it.
func wordsOf(piece string) []concept {
	var words []concept
	eachWord([]byte(piece), func(raw []byte) {
		raw = beginning(raw, maxWordBytes)
		if len(words) <= maxConcepts {
			words = append(words, concept{word: string(raw)})
		}
	})
	for i := len(words) - 1; i >= 0; i-- {
		r, size := utf8.DecodeRuneInString(words[i].word)
		if !spaceless(r) || size != len(words[i].word) {
			continue
		}
		if i > 0 && strings.HasSuffix(words[i-1].word, words[i].word) {
			words = slices.Delete(words, i, i+1)
		} else {
			words[i].prefix = true // a single character: it may begin a pair or end a run
		}
	}
	return words
}

// names returns the terms of a concept's word in some languages.
func (c concept) names(in languageSet) (names []string) {
	for l := range languages {
		if in.has(language(l)) {
			term, other := terms(c.word, language(l))
			names = append(names, term, other)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

// termsIn returns the terms of an index that the concept matches, of which some have its
// names.
func (c concept) termsIn(b *Words, names []string) []int {
	var found []int
	for _, name := range names {
		if i := b.find(name); i < len(b.begins)-1 && b.term(i) == name {
			found = append(found, i)
		}
	}
	if c.prefix {
		prefix := foldedWord(c.word)
		for i := b.find(prefix); i < len(b.begins)-1 && strings.HasPrefix(b.term(i), prefix) && len(found) < 1024; i++ {
			if !slices.Contains(found, i) {
				found = append(found, i)
			}
		}
	}
	return found
}
