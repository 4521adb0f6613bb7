package recall

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Passages finds the parts of texts that answer a query. It is not safe for concurrent use.
type Passages struct {
	query     *Query
	relatives *relatives
	words     Dictionary
}

// PassagesFor returns the Passages of a query.
func PassagesFor(query string) *Passages {
	q := ParseQuery(query)
	q.must, q.not = nil, nil // the memory has them, perhaps in other sentences
	return &Passages{query: q, relatives: q.relatives()}
}

// In returns where the sentence or line of a text begins that answers the query best, in
// bytes. It is 0 if none has a word of the query. Sentences are ranked as memories are, so
// this holds for all languages that a ranking knows.
func (p *Passages) In(text string) int {
	if p.query.empty {
		return 0
	}
	starts := sentences(text)
	words := p.words.Index(0, func(yield func([]byte) bool) {
		for i, start := range starts {
			end := len(text)
			if i+1 < len(starts) {
				end = starts[i+1]
			}
			if !yield([]byte(text[start:end])) {
				return
			}
		}
	}, make([]uint32, len(starts)))
	ranking := p.query.rank(p.relatives)
	ranking.Add(words)
	best := Hit{}
	for _, h := range ranking.Hits(uint64(len(starts)), func(uint64) bool { return true }) {
		if h.Score > best.Score { // of equal ones, the earlier
			best = h
		}
	}
	return starts[best.Leaf]
}

// PassageLength is how many characters of a text show what matched. A sentence of more bytes
// is divided.
const PassageLength = 300

// sentences returns where the sentences and lines of a text begin, and the parts of long
// ones.
func sentences(text string) (starts []int) {
	starts = append(starts, 0)
	for at, space := 0, 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		at += size
		next, _ := utf8.DecodeRuneInString(text[at:])
		if unicode.IsSpace(r) {
			space = at
		}
		begin := starts[len(starts)-1]
		switch {
		case r == '\n':
		case strings.ContainsRune("。！？", r):
		case strings.ContainsRune(".!?…", r) && unicode.IsSpace(next):
		case at-begin >= PassageLength:
			if space > begin {
				at = space
			}
		default:
			continue
		}
		for at < len(text) {
			r, size := utf8.DecodeRuneInString(text[at:])
			if !unicode.IsSpace(r) {
				break
			}
			at += size
		}
		if at < len(text) {
			starts = append(starts, at)
		}
	}
	return starts
}
