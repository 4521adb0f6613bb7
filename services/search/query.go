// Package search finds texts that contain a query, ignoring case.
package search

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"
	"unicode"
	"unicode/utf8"
)

// Query is the text that a search looks for. It is safe for concurrent use.
type Query struct{ folded []byte }

// NewQuery returns the query for a text, which must not be empty.
func NewQuery(text string) *Query { return &Query{appendFolded(nil, []byte(text))} }

// appendFolded appends a text and maps each rune to the one rune that stands for all its
// case variants in Unicode's simple case folding. That rune is never longer than the
// original.
func appendFolded(dst, text []byte) []byte {
	dst = slices.Grow(dst, len(text))
	for len(text) > 0 {
		if len(text) >= 8 {
			if eight := binary.LittleEndian.Uint64(text); eight&nonASCII == 0 {
				dst = binary.LittleEndian.AppendUint64(dst, lowerEight(eight))
				text = text[8:]
				continue
			}
		}
		r, size := utf8.DecodeRune(text)
		dst = utf8.AppendRune(dst, foldTabled(r))
		text = text[size:]
	}
	return dst
}

const (
	everyByte = 0x0101010101010101
	nonASCII  = 0x80 * everyByte
)

// lowerEight maps the capitals among eight ASCII bytes to small letters. Folding byte by
// byte would take as long as decrypting.
func lowerEight(eight uint64) uint64 {
	fromA := eight + (0x80-'A')*everyByte
	afterZ := eight + (0x80-'Z'-1)*everyByte
	return eight | (fromA&^afterZ&nonASCII)>>2
}

// foldings has a table for each block of 256 runes, or nil if every rune of the block
// folds to itself. The package unicode searches lists for a rune, which takes 50 to 200
// ns: a Cherokee text would take as long as another text fifty times its length.
var foldings = func() (table [unicode.MaxRune>>8 + 1]*[256]rune) {
	for _, cased := range unicode.CaseRanges { // no other rune folds
		for r := rune(cased.Lo); r <= rune(cased.Hi); r++ {
			if table[r>>8] == nil {
				table[r>>8] = new([256]rune)
				for i := range table[r>>8] {
					table[r>>8][i] = r&^0xff | rune(i)
				}
			}
			table[r>>8][r&0xff] = fold(r)
		}
	}
	return table
}()

func foldTabled(r rune) rune {
	if block := foldings[r>>8]; block != nil {
		return block[r&0xff]
	}
	return r
}

// fold maps a rune to the smallest rune with the same simple folding, except that ASCII
// letters become lower case.
func fold(r rune) rune {
	smallest := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		smallest = min(smallest, next)
	}
	if 'A' <= smallest && smallest <= 'Z' { // the Kelvin sign and the long s also get here
		return smallest + ('a' - 'A')
	}
	return smallest
}

// separator ends each of the Texts. UTF-8 never contains this byte, so no match reaches
// from one text into the next.
const separator = 0xff

// Texts holds texts with their case folded, side by side: a search passes them many times
// faster than separate strings.
type Texts []byte

func (t Texts) Append(text []byte) Texts { return append(appendFolded(t, text), separator) }

// All returns the texts in order. They are valid as long as the Texts are not changed.
func (t Texts) All() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for rest := t; len(rest) > 0; {
			end := bytes.IndexByte(rest, separator)
			if !yield(rest[:end]) {
				return
			}
			rest = rest[end+1:]
		}
	}
}

// Find calls found with the number of each text that contains the query, in ascending
// order.
func (t Texts) Find(q *Query, found func(text int)) {
	n, rest := 0, []byte(t)
	for {
		at := bytes.Index(rest, q.folded)
		if at < 0 {
			return
		}
		n += bytes.Count(rest[:at], []byte{separator})
		found(n)
		rest = rest[at:]
		rest = rest[bytes.IndexByte(rest, separator)+1:]
		n++
	}
}
