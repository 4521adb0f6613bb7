package recall

import (
	_ "embed"
	"math/bits"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/arabic"
	"github.com/blevesearch/snowballstem/danish"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/finnish"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/hungarian"
	"github.com/blevesearch/snowballstem/irish"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/norwegian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/romanian"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
	"github.com/blevesearch/snowballstem/swedish"
	"github.com/blevesearch/snowballstem/tamil"
	"github.com/blevesearch/snowballstem/turkish"
)

// language is an index into languages. 0 is none: words stay as they are.
type language uint8

// languages are the languages that the stemmer knows.
var languages = []struct {
	code string
	stem func(*snowballstem.Env) bool
}{
	{"", nil},
	{"en", english.Stem}, // first: Latin letters without a function word are taken for English
	{"ar", arabic.Stem}, {"da", danish.Stem}, {"de", german.Stem}, {"es", spanish.Stem}, {"fi", finnish.Stem},
	{"fr", french.Stem}, {"ga", irish.Stem}, {"hu", hungarian.Stem}, {"it", italian.Stem}, {"nl", dutch.Stem},
	{"no", norwegian.Stem}, {"pt", portuguese.Stem}, {"ro", romanian.Stem}, {"ru", russian.Stem},
	{"sv", swedish.Stem}, {"ta", tamil.Stem}, {"tr", turkish.Stem},
}

const inEnglish language = 1

// languageSet has a bit for each language.
type languageSet uint32

func (s languageSet) with(l language) languageSet { return s | 1<<l }
func (s languageSet) has(l language) bool         { return s&(1<<l) != 0 }

// functionWordsFile has a line for each language: its code, then words that say nothing
// about the topic of a text. They indicate the language, and are not searched for.
//
//go:embed function_words.txt
var functionWordsFile string

// irregularFile has a line for each English word: its base form, then the forms that no
// stemmer reduces to it.
//
//go:embed irregular_en.txt
var irregularFile string

// functionWords has the languages in which a word is a function word.
var functionWords = func() map[string]languageSet {
	words := map[string]languageSet{}
	for line := range strings.Lines(functionWordsFile) {
		fields := strings.Fields(line)
		for l := range languages {
			if len(fields) > 0 && languages[l].code == fields[0] {
				for _, word := range fields[1:] {
					folded := foldedWord(word)
					words[folded] = words[folded].with(language(l))
				}
			}
		}
	}
	return words
}()

// irregular maps irregular forms of English words to their base forms.
var irregular = func() map[string]string {
	forms := map[string]string{}
	for line := range strings.Lines(irregularFile) {
		fields := strings.Fields(line)
		for _, form := range fields {
			forms[form] = fields[0]
		}
	}
	return forms
}()

// stem returns the stem of a word in a language.
func (l language) stem(word string) string {
	if l == 0 || !utf8.ValidString(word) {
		return word
	}
	if l == inEnglish {
		word = strings.TrimSuffix(word, "'s")
		if base, ok := irregular[word]; ok {
			word = base
		}
	}
	env := snowballstem.NewEnv(word)
	languages[l].stem(env)
	if env.Current() == "" {
		return word
	}
	return env.Current()
}

// vote counts the votes for each language of a text.
type vote [32]int

// first returns the first language of a set, which must not be empty.
func first(s languageSet) language { return language(bits.TrailingZeros32(uint32(s))) }

// winner returns the language with the most votes, or 0 if there are none.
func (v *vote) winner() language {
	best := language(0)
	for l := range languages {
		if v[l] > v[best] {
			best = language(l)
		}
	}
	return best
}

// byScript returns the language of a letter's script if the script has one stemmer, and
// English for Latin letters.
func byScript(r rune) language {
	switch {
	case unicode.Is(unicode.Latin, r):
		return inEnglish
	case unicode.Is(unicode.Cyrillic, r):
		return russianOf
	case unicode.Is(unicode.Arabic, r):
		return arabicOf
	case unicode.Is(unicode.Tamil, r):
		return tamilOf
	}
	return 0
}

var russianOf, arabicOf, tamilOf = byCode("ru"), byCode("ar"), byCode("ta")

func byCode(code string) language {
	for l := range languages {
		if languages[l].code == code {
			return language(l)
		}
	}
	panic("recall: no language " + code)
}
