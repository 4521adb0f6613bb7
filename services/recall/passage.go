package recall

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Passage returns where the sentence or line of a text begins that answers a query best, in
// bytes. It is 0 if none has a word of the query. Sentences are ranked as memories are, so
// this holds for all languages that a ranking knows.
func Passage(query, text string) int {
	starts := sentences(text)
	if len(starts) < 2 {
		return 0
	}
	words := new(Dictionary).Index(0, func(yield func([]byte) bool) {
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
	q := ParseQuery(query)
	q.must, q.not = nil, nil // the memory has them, perhaps in other sentences
	ranking := q.Rank()
	ranking.Add(words)
	hits := ranking.Hits(uint64(len(starts)), func(uint64) bool { return true })
	if q.empty || len(hits) == 0 {
		return 0
	}
	best := slices.MaxFunc(hits, func(a, b Hit) int {
		switch {
		case a.Score < b.Score:
			return -1
		case a.Score > b.Score:
			return 1
		}
		return int(b.Leaf) - int(a.Leaf) // the earlier one
	})
	return starts[best.Leaf]
}

// sentences returns where the sentences and lines of a text begin, at most a thousand: the
// rest belongs to the last one.
func sentences(text string) (starts []int) {
	starts = append(starts, 0)
	for at := 0; at < len(text) && len(starts) < 1000; {
		r, size := utf8.DecodeRuneInString(text[at:])
		at += size
		next, _ := utf8.DecodeRuneInString(text[at:])
		switch {
		case r == '\n':
		case strings.ContainsRune("。！？", r):
		case strings.ContainsRune(".!?…", r) && unicode.IsSpace(next):
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
