package search

import "bytes"

// maxIndexed is the length in bytes of the longest folded query that bytes.Index searches
// for. For a longer query, bytes.Index may compare nearly the whole query at every place
// of a text, for example zeros in zeros. So a longer query uses an algorithm that looks
// at each byte once.
const maxIndexed = 63

// Query is the text that a search looks for. It is safe for concurrent use.
type Query struct {
	folded []byte
	// borders has, for each place of a long query, the length of the longest proper
	// prefix of the query that ends there (Knuth, Morris and Pratt).
	borders []int32
}

// NewQuery returns the query for a text, which must not be empty.
func NewQuery(text string) *Query {
	q := &Query{folded: appendFolded(nil, []byte(text))}
	if len(q.folded) <= maxIndexed {
		return q
	}
	q.borders = make([]int32, len(q.folded))
	for i, length := 1, 0; i < len(q.folded); i++ {
		length = q.grow(length, q.folded[i])
		q.borders[i] = int32(length)
	}
	return q
}

// index returns a place within the first match in folded texts, or -1 if there is none.
func (q *Query) index(texts []byte) int {
	if q.borders == nil {
		return bytes.Index(texts, q.folded)
	}
	length := 0
	for i, c := range texts {
		if length = q.grow(length, c); length == len(q.folded) {
			return i
		}
	}
	return -1
}

// grow extends a partial match by the byte c. The text before c ends with the first
// length bytes of the query, which is not the whole query. grow returns that length for
// the text including c.
func (q *Query) grow(length int, c byte) int {
	for q.folded[length] != c {
		if length == 0 {
			return 0
		}
		length = int(q.borders[length-1])
	}
	return length + 1
}
