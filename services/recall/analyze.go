package recall

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/unicode/norm"
)

// maxWordBytes is how many bytes of a word are used.
const maxWordBytes = 64

// eachWord calls yield for each word of a text, in order. A word has a letter or a digit.
// In a run of characters of a script without spaces, each pair is a word, and so is the
// last character alone. The bytes are valid until yield returns.
func eachWord(text []byte, yield func([]byte)) {
	tokens := words.FromBytes(text)
	run, runEnd := []byte(nil), -1
	flush := func() {
		eachPair(norm.NFC.Bytes(run), yield) // decomposed, a character would be several
		run = run[:0]
	}
	for tokens.Next() {
		token := tokens.Value()
		if r, _ := utf8.DecodeRune(token); !spaceless(r) {
			if isWord(token) {
				flush()
				yield(token)
			}
			continue
		}
		if tokens.Start() != runEnd {
			flush()
		}
		run, runEnd = append(run, token...), tokens.End()
	}
	flush()
}

func eachPair(run []byte, yield func([]byte)) {
	for len(run) > 0 {
		_, first := utf8.DecodeRune(run)
		_, second := utf8.DecodeRune(run[first:])
		yield(run[:first+second])
		run = run[first:]
	}
}

// isWord reports whether a token has a letter or a digit.
func isWord(token []byte) bool {
	for len(token) > 0 {
		r, size := rune(token[0]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(token)
		}
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return true
		}
		token = token[size:]
	}
	return false
}

// withoutSpaces are the scripts that put no spaces between words.
var withoutSpaces = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
}

func spaceless(r rune) bool { return r >= 0x0e00 && unicode.In(r, withoutSpaces...) }

// fold returns a word in NFKC, in lower case and without diacritics.
func fold(word string) string {
	plain := true
	for i := range len(word) {
		if c := word[i]; c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' {
			plain = false
			break
		}
	}
	if plain {
		return word
	}
	var b strings.Builder
	for _, r := range norm.NFKD.String(strings.ToLower(norm.NFKC.String(word))) {
		switch {
		case unicode.Is(unicode.Mn, r) && !unicode.In(r, withoutSpaces...) && r < 0x0900: // in later blocks, marks are vowels
		case r == '’':
			b.WriteByte('\'')
		default:
			if s, ok := spelled[r]; ok {
				b.WriteString(s)
			} else {
				b.WriteRune(unicode.ToLower(r))
			}
		}
	}
	return norm.NFC.String(b.String())
}

// spelled replaces the letters that do not decompose.
var spelled = map[rune]string{
	'ß': "ss", 'æ': "ae", 'œ': "oe", 'ø': "o", 'ł': "l", 'đ': "d", 'ð': "d", 'þ': "th", 'ı': "i", 'ς': "σ", 'ĸ': "k", 'ŋ': "n",
}

// lower returns a word in NFKC and lower case, with its diacritics, as stemmers need it.
func lower(word string) string {
	return strings.ReplaceAll(strings.ToLower(norm.NFKC.String(word)), "’", "'")
}

// beginning cuts a text to at most so many bytes, between characters.
func beginning[T string | []byte](text T, bytes int) T {
	if len(text) <= bytes {
		return text
	}
	for bytes > 0 && !utf8.RuneStart(text[bytes]) {
		bytes--
	}
	return text[:bytes]
}

// elided are French and Italian articles before an apostrophe. They are not part of the
// word.
var elided = []string{"l'", "d'", "j'", "qu'", "c'", "n'", "s'", "m'", "t'", "un'", "dell'", "nell'", "all'", "dall'", "sull'", "quell'"}

func unelided(word string) string {
	for _, e := range elided {
		if rest, found := strings.CutPrefix(word, e); found && len(rest) > 2 {
			return rest
		}
	}
	return word
}

// foldedWord returns a word without its article and diacritics. Function words are looked
// up in this form.
func foldedWord(word string) string { return fold(unelided(lower(word))) }

// terms returns the terms of a word in a language: its stem without diacritics, and the
// stem of the word without diacritics, if that differs. So a query typed without accents
// finds a text that has them. The first term is never empty.
func terms(word string, in language) (term, other string) {
	accented := unelided(lower(word))
	term = fold(in.stem(accented))
	if term == "" { // only marks are left: of an Arabic tatweel, or of a long word that was cut
		term = cmp.Or(fold(accented), accented)
	}
	other = in.stem(fold(accented))
	if other == term {
		return term, ""
	}
	return term, other
}

// Term returns the term of an English word.
func Term(word string) string {
	term, _ := terms(word, inEnglish)
	return term
}
