package recall

import (
	_ "embed"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"sync"
)

// A related word counts half the cosine of its vector and that of the query's word, or
// saidFor where related_en.txt has the two.
const (
	// nearEnough is the cosine from which words are related.
	nearEnough = 0.35
	saidFor    = 0.55
	// lightness is what a word counts that says little in a question.
	lightness = 0.25
	// remote is the part of the best score below which relatives alone do not match.
	remote = 0.2
	// maxRelated is how many words a question has at most. A longer query is a text, whose
	// own words are enough.
	maxRelated = 16
)

// table is what is known of the words of a language, beside the memories of an owner.
type table struct {
	ids     map[string]uint16 // of terms, from 1
	vectors string            // 8 bits signed for each dimension
	norms   []float32         // by id
	answers map[uint16][]uint16
	light   map[string]bool
}

// dimensions is the length of a vector.
const dimensions = 100

// vectorsEnglish is made by `make related`.
//
//go:embed related_en.bin
var vectorsEnglish string

//go:embed related_en.txt
var answersEnglish string

// inTable is the table of English.
var inTable = sync.OnceValue(func() *table { return newTable(vectorsEnglish, answersEnglish) })

// newTable reads a table: the number of terms and the length of their names, in four bytes
// each, the names, one a line, and the vectors.
func newTable(vectors, answers string) *table {
	terms, length := binary.LittleEndian.Uint32([]byte(vectors[:4])), binary.LittleEndian.Uint32([]byte(vectors[4:8]))
	names, vectors := vectors[8:8+length], vectors[8+length:]
	t := &table{ids: make(map[string]uint16, terms), vectors: vectors, norms: make([]float32, terms+1), answers: map[uint16][]uint16{}, light: map[string]bool{}}
	for name := range strings.SplitSeq(names, "\n") {
		id := uint16(len(t.ids) + 1)
		t.ids[name] = id
		t.norms[id] = float32(math.Sqrt(float64(dot(t.vector(id), t.vector(id)))))
	}
	for line := range strings.Lines(answers) {
		asked, answering, found := strings.Cut(line, ":")
		switch {
		case strings.HasPrefix(line, "#"):
		case !found:
			for word := range strings.FieldsSeq(line) {
				t.light[Term(word)] = true
			}
		default:
			for word := range strings.FieldsSeq(asked) {
				for other := range strings.FieldsSeq(answering) {
					t.answers[t.ids[Term(word)]] = append(t.answers[t.ids[Term(word)]], t.ids[Term(other)])
				}
			}
		}
	}
	return t
}

func (t *table) vector(id uint16) string {
	return t.vectors[int(id-1)*dimensions : int(id)*dimensions]
}

func dot(a, b string) int32 {
	a, b = a[:dimensions], b[:dimensions]
	var sum [4]int32
	for i := 0; i < dimensions; i += 4 {
		sum[0] += int32(int8(a[i])) * int32(int8(b[i]))
		sum[1] += int32(int8(a[i+1])) * int32(int8(b[i+1]))
		sum[2] += int32(int8(a[i+2])) * int32(int8(b[i+2]))
		sum[3] += int32(int8(a[i+3])) * int32(int8(b[i+3]))
	}
	return sum[0] + sum[1] + sum[2] + sum[3]
}

// relatives weighs the words that are related to words of a query. It is not safe for
// concurrent use.
type relatives struct {
	words []uint16     // of the query, by concept; 0: it has no relatives
	known [][]relative // of the words that were weighed
	at    []uint16     // by id, where a word is in known; 0: not weighed yet
}

// relative is what a word counts for a concept that it is related to.
type relative struct {
	concept int
	weight  float64
}

// unrelated is the place in known of words that are related to no word of the query.
const unrelated = 1

// relatives returns nil if the query has no relatives.
func (q *Query) relatives() *relatives {
	r := &relatives{known: make([][]relative, unrelated+1)}
	some := false
	for _, c := range q.any {
		r.words = append(r.words, c.related)
		some = some || c.related != 0
	}
	if !some || len(q.any) > maxRelated {
		return nil
	}
	r.at = make([]uint16, len(inTable().norms))
	r.at[0] = unrelated
	for _, word := range r.words {
		for _, id := range inTable().answers[word] {
			r.weigh(id, inTable().said)
		}
	}
	return r
}

// related finds where an index has relatives of the query's words.
func (r *Ranking) related(w *Words) {
	of := r.relatives
	for term, id := range w.related {
		if of.at[id] == 0 {
			of.weigh(id, inTable().near)
		}
		if of.at[id] == unrelated {
			continue
		}
		counts := w.countsOf(term)
		for _, to := range of.known[of.at[id]] {
			r.found[to.concept] = append(r.found[to.concept], found{w.first, counts, to.weight, id})
		}
	}
}

// weigh finds out what a word counts for each word of the query.
func (r *relatives) weigh(id uint16, weight func(of, word uint16) float64) {
	var related []relative
	for concept, word := range r.words {
		if word == 0 || word == id {
			continue
		}
		if weight := weight(word, id); weight > 0 {
			related = append(related, relative{concept, weight})
		}
	}
	if r.at[id] = unrelated; related != nil {
		r.at[id] = uint16(len(r.known))
		r.known = append(r.known, related)
	}
}

// near returns what a word counts for another by their vectors.
func (t *table) near(of, word uint16) float64 {
	cosine := float64(dot(t.vector(of), t.vector(word))) / float64(t.norms[of]*t.norms[word])
	if !(cosine > nearEnough) { // also of a word without a vector
		return 0
	}
	return cosine / 2
}

// said is near for words that answer others.
func (t *table) said(of, word uint16) float64 {
	if slices.Contains(t.answers[of], word) {
		return saidFor
	}
	return t.near(of, word)
}
