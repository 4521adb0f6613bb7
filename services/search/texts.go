// Package search finds texts that contain a query, ignoring case.
package search

import (
	"bytes"
	"iter"
)

// separator ends each of the Texts. UTF-8 never contains this byte, so no match reaches
// from one text into the next.
const separator = 0xff

// Texts holds texts with their case folded, side by side: a search passes them many times
// faster than separate strings.
type Texts []byte

// Append adds a text.
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
		at := q.index(rest)
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
