package recall

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Hit is a memory that matches.
type Hit struct {
	Leaf  uint64
	Score float64
}

// match is the result of a query on one index.
type match struct {
	first   uint64
	lengths []uint16
	created []uint32
	counts  [][]count // for each concept of any
	barred  []bool    // leaves that the phrases exclude; nil without phrases
}

type count struct {
	leaf  uint32 // place in the run
	times uint16
}

// match runs the query on an index.
func (q *Query) match(b *Words) match {
	m := match{first: b.first, lengths: b.lengths, created: b.created, counts: make([][]count, len(q.any))}
	for i, c := range q.any {
		m.counts[i] = countsOf(b, c.termsIn(b))
	}
	if len(q.must)+len(q.not) == 0 {
		return m
	}
	m.barred = make([]bool, b.leaves())
	for _, p := range q.must {
		has := p.in(b)
		for leaf := range m.barred {
			m.barred[leaf] = m.barred[leaf] || !has[uint32(leaf)]
		}
	}
	for _, p := range q.not {
		for leaf := range p.in(b) {
			m.barred[leaf] = true
		}
	}
	return m
}

// countsOf returns how often each leaf has any of the terms, in ascending order of
// leaves.
func countsOf(b *Words, terms []int) []count {
	var counts []count
	for _, t := range terms {
		b.counts(t, func(leaf uint32, n int) { counts = append(counts, count{leaf, uint16(n)}) })
	}
	if len(terms) < 2 {
		return counts
	}
	slices.SortFunc(counts, func(a, b count) int { return cmp.Compare(a.leaf, b.leaf) })
	merged := counts[:0]
	for _, c := range counts {
		if n := len(merged); n > 0 && merged[n-1].leaf == c.leaf {
			// A word may be indexed under two terms, so the sum would count it twice.
			merged[n-1].times = max(merged[n-1].times, c.times)
			continue
		}
		merged = append(merged, c)
	}
	return merged
}

// in returns the leaves of an index that have the phrase.
func (p phrase) in(b *Words) map[uint32]bool {
	var ends map[uint32][]uint16 // by leaf: where the phrase up to the previous word ends, ascending
	for i, c := range p {
		here := map[uint32][]uint16{}
		for _, t := range c.termsIn(b) {
			for _, posting := range b.appendPostings(nil, t) {
				if i == 0 {
					here[posting.leaf] = append(here[posting.leaf], posting.places...)
					continue
				}
				before := ends[posting.leaf]
				for _, place := range posting.places {
					for len(before) > 0 && before[0]+1 < place {
						before = before[1:]
					}
					if len(before) > 0 && before[0]+1 == place {
						here[posting.leaf] = append(here[posting.leaf], place)
					}
				}
			}
		}
		for _, places := range here {
			slices.Sort(places) // the places of several terms
		}
		ends = here
	}
	found := make(map[uint32]bool, len(ends))
	for leaf := range ends {
		found[leaf] = true
	}
	return found
}

// Ranking is a query in progress over an owner's log.
type Ranking struct {
	query   *Query
	matches []match
}

// Rank begins to rank. Each leaf that has a word of the query scores by BM25. It gains 0.4
// and 0.2 of the best score one and two leaves away, if that leaf was written within half
// an hour. It also gains up to a tenth for recency, which halves every 30 days before the
// newest memory.
func (q *Query) Rank() *Ranking { return &Ranking{query: q} }

// Add looks for the query in the next leaves. The first ones begin with leaf 0.
func (r *Ranking) Add(w *Words) { r.matches = append(r.matches, r.query.match(w)) }

// Hits returns the leaves that match, in ascending order, with their scores. Leaves from
// size on are ignored everywhere, so that a later page of an answer ranks as the first page
// did. So are leaves that are not visible: nothing tells a reader that they exist.
func (r *Ranking) Hits(size uint64, visible func(leaf uint64) bool) []Hit {
	return r.query.rank(r.matches, size, visible)
}

func (q *Query) rank(matches []match, size uint64, visible func(leaf uint64) bool) []Hit {
	leaves := newLeaves(matches, size, visible)
	scores := make([]float64, len(leaves.created))
	has := make([]bool, len(scores))
	for i := range q.any {
		documents := 0
		leaves.each(i, func(uint64, count) { documents++ })
		if documents == 0 {
			continue
		}
		n := float64(leaves.visible)
		rarity := math.Log(1 + (n-float64(documents)+0.5)/(float64(documents)+0.5))
		leaves.each(i, func(leaf uint64, c count) {
			times := float64(c.times)
			// BM25 with k1 = 0.9 and b = 0.3. Texts are short, so a word that occurs twice
			// says little more than one that occurs once, and the length says little.
			norm := 0.7 + 0.3*float64(leaves.lengths[leaf])/leaves.average
			scores[leaf] += rarity * times * 1.9 / (times + 0.9*norm)
			has[leaf] = true
		})
	}
	var hits []Hit
	for leaf := range scores {
		if (has[leaf] || q.empty) && !leaves.barred[leaf] {
			hits = append(hits, Hit{uint64(leaf), (scores[leaf] + leaves.beside(scores, leaf)) * leaves.recency(leaf)})
		}
	}
	if q.empty { // newest first
		for i := range hits {
			hits[i].Score = leaves.recency(int(hits[i].Leaf)) - 1
		}
	}
	return hits
}

// leaves is the matches' data about an owner's leaves.
type leaves struct {
	matches []match
	lengths []uint16
	created []uint32
	barred  []bool // also those that are not visible
	hidden  []bool
	visible int     // leaves
	newest  uint32  // when the newest visible one occurred
	average float64 // of the visible lengths
}

func newLeaves(matches []match, size uint64, visible func(leaf uint64) bool) *leaves {
	l := &leaves{matches: matches, lengths: make([]uint16, 0, size), created: make([]uint32, 0, size), barred: make([]bool, size)}
	for _, m := range matches {
		n := min(uint64(len(m.lengths)), size-min(size, m.first))
		l.lengths, l.created = append(l.lengths, m.lengths[:n]...), append(l.created, m.created[:n]...)
		copy(l.barred[min(size, m.first):], m.barred)
	}
	total := 0.0
	l.hidden = make([]bool, len(l.lengths))
	for leaf, n := range l.lengths {
		if !visible(uint64(leaf)) {
			l.hidden[leaf], l.barred[leaf], l.created[leaf] = true, true, 0
			continue
		}
		total += float64(n)
		l.newest = max(l.newest, l.created[leaf])
		l.visible++
	}
	l.average = max(1, total/float64(max(1, l.visible)))
	return l
}

// each calls yield for each leaf that has a concept.
func (l *leaves) each(concept int, yield func(leaf uint64, c count)) {
	for _, m := range l.matches {
		for _, c := range m.counts[concept] {
			if leaf := m.first + uint64(c.leaf); leaf < uint64(len(l.created)) && !l.hidden[leaf] {
				yield(leaf, c)
			}
		}
	}
}

// beside returns what a leaf gains from its neighbors.
func (l *leaves) beside(scores []float64, leaf int) float64 {
	at := func(i int) float64 {
		if i < 0 || i >= len(scores) || l.barred[i] {
			return 0
		}
		apart := time.Duration(int64(l.created[i])-int64(l.created[leaf])) * time.Second
		if apart.Abs() > 30*time.Minute { // not of the same talk
			return 0
		}
		return scores[i]
	}
	return 0.4*max(at(leaf-1), at(leaf+1)) + 0.2*max(at(leaf-2), at(leaf+2))
}

// recency returns the factor for a leaf's age, from 1 to 1.1. The gain halves
// with every 30 days before the newest memory.
func (l *leaves) recency(leaf int) float64 {
	age := time.Duration(int64(l.newest)-int64(l.created[leaf])) * time.Second
	return 1 + 0.1*math.Exp2(-max(0, age).Hours()/(30*24))
}
