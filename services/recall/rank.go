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

// match is what a ranking knows of an index, beside what it found there.
type match struct {
	first   uint64
	lengths []uint16
	created []uint32
	barred  []bool // leaves that the phrases exclude; nil without phrases
}

// found is where an index has a concept's own word, or one of its relatives.
type found struct {
	first    uint64 // leaf of the index
	counts   []count
	weight   float64 // 1 for the word itself
	relative uint16  // in the table of related words; 0: the word itself
}

type count struct {
	leaf  uint32 // place in the run
	times uint16
}

// barred returns the leaves of an index that the phrases exclude, nil without phrases.
func (q *Query) barred(b *Words) []bool {
	if len(q.must)+len(q.not) == 0 {
		return nil
	}
	barred := make([]bool, b.Leaves())
	for _, p := range q.must {
		has := p.in(b)
		for leaf := range barred {
			barred[leaf] = barred[leaf] || !has[uint32(leaf)]
		}
	}
	for _, p := range q.not {
		for leaf := range p.in(b) {
			barred[leaf] = true
		}
	}
	return barred
}

// countsOf returns how often each leaf of an index has any of the terms, in ascending order
// of leaves.
func (w *Words) countsOf(terms ...int) []count {
	var counts []count
	for _, t := range terms {
		counts = w.appendCounts(counts, t)
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
		for _, t := range c.termsIn(b, c.names(b.languages)) {
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
	query     *Query
	relatives *relatives
	matches   []match
	found     [][]found // by concept
	in        languageSet
	names     [][]string // by concept, in these languages
}

// Rank begins to rank. For each word of the query, a leaf scores by BM25 if it has the
// word, or less if it has a related word; the best of them counts. Words that say little
// count a quarter. The sum is multiplied by the square root of the part of the query that
// the leaf has. A leaf with related words only does not match far below the best score, or
// where the query is one word that others have.
//
// A leaf gains 0.4 and 0.2 of the best score one and two leaves away, if that leaf was
// written within half an hour. It also gains up to a tenth for recency, which halves every
// 30 days before the newest memory.
func (q *Query) Rank() *Ranking { return q.rank(q.relatives()) }

func (q *Query) rank(r *relatives) *Ranking {
	return &Ranking{query: q, relatives: r, found: make([][]found, len(q.any))}
}

// Add looks for the query in the next leaves. The first ones begin with leaf 0.
func (r *Ranking) Add(w *Words) {
	if r.names == nil || r.in != w.languages { // few runs differ in their languages
		r.in, r.names = w.languages, make([][]string, len(r.query.any))
		for i, c := range r.query.any {
			r.names[i] = c.names(r.in)
		}
	}
	for i, c := range r.query.any {
		if terms := c.termsIn(w, r.names[i]); terms != nil {
			r.found[i] = append(r.found[i], found{first: w.first, counts: w.countsOf(terms...), weight: 1})
		}
	}
	if r.relatives != nil {
		r.related(w)
	}
	r.matches = append(r.matches, match{w.first, w.lengths, w.created, r.query.barred(w)})
}

// Hits returns the leaves that match, in ascending order, with their scores. Leaves from
// size on are ignored everywhere, so that a later page of an answer ranks as the first page
// did. So are leaves that are not visible: nothing tells a reader that they exist.
func (r *Ranking) Hits(size uint64, visible func(leaf uint64) bool) (hits []Hit) {
	s := r.score(size, visible)
	for leaf := range s.sums {
		if s.matches(leaf) {
			hits = append(hits, s.hit(leaf, s.beside(leaf), s.recency(leaf)))
		}
	}
	return hits
}

// Best returns the n best of the hits that pass, in ascending order, and how many pass. Of
// equal scores, those of the highest leaves are the best.
func (r *Ranking) Best(n int, size uint64, visible, passes func(leaf uint64) bool) (hits []Hit, matched int) {
	s := r.score(size, visible)
	hits = make([]Hit, 0, 2*n)
	least := -1.0
	cut := func() {
		slices.SortFunc(hits, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Leaf, a.Leaf)) })
		hits = hits[:min(n, len(hits))]
	}
	created, recency := uint32(0), 0.0 // of one leaf: no leaf that is older is more recent
	// From the newest leaf on, most that follow are no better than those that were found.
	for leaf := len(s.sums) - 1; leaf >= 0; leaf-- {
		if !s.matches(leaf) || !passes(uint64(leaf)) {
			continue
		}
		matched++
		beside, most := s.beside(leaf), 1.1
		if s.created[leaf] <= created {
			most = recency
		}
		if !s.all && (s.sums[leaf]+beside)*most <= least {
			continue
		}
		created, recency = s.created[leaf], s.recency(leaf)
		if hits = append(hits, s.hit(leaf, beside, recency)); len(hits) == 2*n {
			cut()
			least = hits[n-1].Score
		}
	}
	cut()
	slices.SortFunc(hits, func(a, b Hit) int { return cmp.Compare(a.Leaf, b.Leaf) })
	return hits, matched
}

// scored is what each leaf scores.
type scored struct {
	*leaves
	all    bool      // nothing was asked
	sums   []float64 // without what neighbors and recency add
	enough float64   // from where leaves match that have only relatives
}

func (r *Ranking) score(size uint64, visible func(leaf uint64) bool) scored {
	q, leaves := r.query, newLeaves(r.matches, size, visible)
	scores, covered := make([]float64, len(leaves.created)), make([]float64, len(leaves.created))
	best, asked := make([]float64, len(scores)), 0.0
	for i, c := range q.any {
		most := leaves.score(r.found[i], best)
		if most == 0 {
			continue
		}
		says := 1.0
		if c.light {
			says = lightness
		}
		asked += says
		for leaf, score := range best {
			scores[leaf] += says * score
			covered[leaf] += says * score / most
		}
	}
	highest, exact := 0.0, false
	for leaf := range scores {
		scores[leaf] *= math.Sqrt(covered[leaf] / max(asked, 1))
		if !leaves.barred[leaf] {
			highest, exact = max(highest, scores[leaf]), exact || leaves.exact[leaf]
		}
	}
	enough := remote * highest
	if q.keyword && exact {
		enough = math.Inf(1)
	}
	return scored{leaves, q.empty, scores, enough}
}

func (s *scored) matches(leaf int) bool {
	return (s.all || s.exact[leaf] || s.sums[leaf] > s.enough) && !s.barred[leaf]
}

func (s *scored) hit(leaf int, beside, recency float64) Hit {
	if s.all { // newest first
		return Hit{uint64(leaf), recency - 1}
	}
	return Hit{uint64(leaf), (s.sums[leaf] + beside) * recency}
}

// beside returns what a leaf gains from its neighbors.
func (s *scored) beside(leaf int) float64 {
	at := func(i int) float64 {
		if i < 0 || i >= len(s.sums) || s.barred[i] {
			return 0
		}
		if apart := int64(s.created[i]) - int64(s.created[leaf]); apart < -30*60 || apart > 30*60 { // not of the same talk
			return 0
		}
		return s.sums[i]
	}
	return 0.4*max(at(leaf-1), at(leaf+1)) + 0.2*max(at(leaf-2), at(leaf+2))
}

// leaves is the matches' data about an owner's leaves.
type leaves struct {
	lengths []uint16
	created []uint32
	barred  []bool // also those that are not visible
	hidden  []bool
	exact   []bool  // those that have a word of the query, not only its relatives
	visible int     // leaves
	newest  uint32  // when the newest visible one occurred
	average float64 // of the visible lengths
}

func newLeaves(matches []match, size uint64, visible func(leaf uint64) bool) *leaves {
	l := &leaves{lengths: make([]uint16, 0, size), created: make([]uint32, 0, size), barred: make([]bool, size), exact: make([]bool, size)}
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

// score sets best to what each leaf scores for a concept, and returns the highest score. Of
// the word and its relatives, the best counts. The word itself always scores more than a
// relative does, wherever it is.
func (l *leaves) score(all []found, best []float64) (most float64) {
	documents := map[uint16]int{} // by word
	for _, f := range all {
		n := 0
		l.each(f, func(uint64, count) { n++ })
		documents[f.relative] += n
	}
	rarity := func(f found) float64 {
		n, with := float64(l.visible), float64(documents[f.relative])
		return math.Log(1 + (n-with+0.5)/(with+0.5))
	}
	clear(best)
	least, rare := math.Inf(1), math.Inf(1) // of the word itself
	for _, f := range all {
		if f.relative == 0 && documents[0] > 0 {
			rare = rarity(f)
			l.each(f, func(leaf uint64, c count) {
				l.exact[leaf] = true
				best[leaf] = rare * l.frequency(leaf, c)
				least, most = min(least, best[leaf]), max(most, best[leaf])
			})
		}
	}
	for _, f := range all {
		if f.relative != 0 {
			weight := f.weight * min(rare, rarity(f))
			l.each(f, func(leaf uint64, c count) {
				score := min(weight*l.frequency(leaf, c), 0.9*least) // recency does not undo nine tenths
				best[leaf], most = max(best[leaf], score), max(most, score)
			})
		}
	}
	return most
}

// frequency is the part of BM25 that a word's count in a leaf decides, with k1 = 0.9 and
// b = 0.3. Texts are short, so a word that occurs twice says little more than one that
// occurs once, and the length says little.
func (l *leaves) frequency(leaf uint64, c count) float64 {
	norm := 0.7 + 0.3*float64(l.lengths[leaf])/l.average
	return float64(c.times) * 1.9 / (float64(c.times) + 0.9*norm)
}

// each calls yield for each visible leaf of a find.
func (l *leaves) each(f found, yield func(leaf uint64, c count)) {
	for _, c := range f.counts {
		if leaf := f.first + uint64(c.leaf); leaf < uint64(len(l.created)) && !l.hidden[leaf] {
			yield(leaf, c)
		}
	}
}

// recency returns the factor for a leaf's age, from 1 to 1.1. The gain halves
// with every 30 days before the newest memory.
func (l *leaves) recency(leaf int) float64 {
	age := time.Duration(int64(l.newest)-int64(l.created[leaf])) * time.Second
	return 1 + 0.1*math.Exp2(-max(0, age).Hours()/(30*24))
}
