package recall

import (
	"encoding/binary"
	"slices"
	"sort"
)

// Words is the index of the words of consecutive leaves. It is immutable once made.
type Words struct {
	first     uint64   // the index of the first leaf
	lengths   []uint16 // words of each leaf, without function words
	created   []uint32 // when each leaf was written, in Unix seconds
	languages languageSet

	// Terms in ascending order, side by side. Term i begins at begins[i], and its
	// postings begin at starts[i]. Each slice has one more entry, for the end of the last
	// term.
	terms  string
	begins []uint32
	// The id of each term in the table of related words, 0 for none.
	related []uint16
	// For each leaf that has the term: the difference between its place in the run and
	// the previous one, how often it has the term, and the difference between each place
	// of the term in the text and the previous one; all as varints.
	postings []byte
	starts   []uint32
}

// Leaves returns how many leaves the index has.
func (b *Words) Leaves() int { return len(b.lengths) }

// Bytes is about how much memory the index takes.
func (b *Words) Bytes() int64 {
	return 256 + int64(cap(b.lengths)*2+cap(b.created)*4+len(b.terms)+cap(b.begins)*4+cap(b.related)*2+cap(b.postings)+cap(b.starts)*4)
}

func (b *Words) term(i int) string { return b.terms[b.begins[i]:b.begins[i+1]] }

// find returns the number of the first term that is not less than the given one.
func (b *Words) find(term string) int {
	return sort.Search(len(b.begins)-1, func(i int) bool { return b.term(i) >= term })
}

// posting has the places of a term in a leaf.
type posting struct {
	leaf   uint32   // place in the run
	places []uint16 // in the text, ascending
}

// appendPostings decodes the postings of a term.
func (b *Words) appendPostings(to []posting, term int) []posting {
	p := b.postings[b.starts[term]:b.starts[term+1]]
	leaf, at := uint32(0), 0
	for at < len(p) {
		leaf += next(p, &at)
		places := make([]uint16, next(p, &at))
		place := uint32(0)
		for i := range places {
			place += next(p, &at)
			places[i] = uint16(place)
		}
		to = append(to, posting{leaf, places})
	}
	return to
}

// appendCounts appends how often each leaf has a term.
func (b *Words) appendCounts(to []count, term int) []count {
	p := b.postings[b.starts[term]:b.starts[term+1]]
	to = slices.Grow(to, len(p)/3) // each takes three bytes or more
	leaf, at := uint32(0), 0
	for at < len(p) {
		leaf += next(p, &at)
		times := next(p, &at)
		for range times {
			for p[at] >= 0x80 {
				at++
			}
			at++
		}
		to = append(to, count{leaf, uint16(times)})
	}
	return to
}

func next(p []byte, at *int) uint32 {
	if b := p[*at]; b < 0x80 {
		*at++
		return uint32(b)
	}
	v, n := binary.Uvarint(p[*at:])
	*at += n
	return uint32(v)
}
