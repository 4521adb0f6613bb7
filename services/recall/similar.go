package recall

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/singleflight"

	"github.com/memory-ledger/ledger/projections/readmodel/bodypages"
	"github.com/memory-ledger/ledger/services/search"
)

const (
	// comparedPages is how many pages one Step compares.
	comparedPages = 16
	// nearest bounds the memories in an answer that have no word of the query.
	nearest = 100
	// rankConstant is the k of reciprocal rank fusion (Cormack, Clarke and Buettcher, 2009).
	rankConstant = 60
)

// Vectors compares the meaning of queries and texts by their embeddings.
type Vectors struct {
	embedder *Embedder
	table    *VectorTable
	kept     *VectorCache
	flights  singleflight.Group // one batch of an owner's page at a time
}

// NewVectors returns Vectors that keep opened vectors in kept.
func NewVectors(embedder *Embedder, table *VectorTable, kept *VectorCache) *Vectors {
	return &Vectors{embedder: embedder, table: table, kept: kept}
}

// Similarity is a query in progress over the vectors of an owner's leaves, newest first.
// It compares leaves without a gap: leaves older than one without a vector are left out.
// From tells which leaves took part.
type Similarity struct {
	vectors *Vectors
	texts   Texts
	all     search.Range // it ends at From
	never   []uint64     // leaves whose texts must not be sent, ascending
	asked   string       // the query's text
	query   vector
	norm    float32
	drops   uint64
	cosines []float32 // of the leaves from next on
	next    uint64    // the oldest leaf that was compared
	page    *vectorPage
	missing *batch // what must be embedded before the next Step
}

// batch is leaves of a page without vectors.
type batch struct {
	number uint64
	page   *vectorPage
	leaves []int // places in the page
	texts  []string
}

// Similar gets the vector of a query. It compares the leaves of the range, from From on.
// The leaves in never, in ascending order, are not embedded.
func (v *Vectors) Similar(ctx context.Context, texts Texts, all search.Range, never []uint64, q *Query) (*Similarity, error) {
	s := &Similarity{vectors: v, texts: texts, all: all, never: never, next: all.To, drops: v.kept.generation()}
	s.asked = q.asked()
	key := queryKey{all.Owner, s.asked}
	if s.query = v.kept.query(key); s.query == nil {
		found, err := v.embedder.embed(ctx, []string{s.asked})
		if err != nil {
			return nil, err
		}
		s.query = found[0]
		v.kept.putQuery(key, s.query, s.drops)
	}
	s.norm = s.query.norm()
	s.cosines = make([]float32, all.To)
	return s, nil
}

// Done reports whether all leaves of the range were compared.
func (s *Similarity) Done() bool { return s.next <= s.all.From }

// From returns the oldest leaf that was compared.
func (s *Similarity) From() uint64 { return s.next }

// Missing reports whether Fill must run before the next Step.
func (s *Similarity) Missing() bool { return s.missing != nil }

// Step compares some pages, or ends before a leaf without a vector.
func (s *Similarity) Step(ctx context.Context) error {
	for range comparedPages {
		if s.Done() {
			return nil
		}
		number := (s.next - 1) / bodypages.Leaves
		first := number * bodypages.Leaves
		if s.page == nil {
			var err error
			if s.page, err = s.load(ctx, number, int(s.next-first)); err != nil {
				return err
			}
		}
		for s.next > max(first, s.all.From) {
			leaf := int(s.next - 1 - first)
			has := s.page.has(leaf, len(s.query))
			if !has && s.sends(s.next-1) {
				return s.want(ctx, number, leaf)
			}
			s.next--
			if has {
				s.cosines[s.next] = s.page.cosine(leaf, s.query, s.norm)
			}
		}
		s.page = nil
	}
	return ctx.Err()
}

// sends reports whether a leaf's text may be sent to the endpoint.
func (s *Similarity) sends(leaf uint64) bool {
	_, never := slices.BinarySearch(s.never, leaf)
	return !never && leaf >= s.all.From
}

// load returns the kept page if it has the first so many leaves, and otherwise the kept
// or the stored page, whichever lacks fewer of them.
func (s *Similarity) load(ctx context.Context, number uint64, leaves int) (*vectorPage, error) {
	key := vectorKey{s.all.Owner, number}
	kept := s.vectors.kept.get(key)
	if kept != nil && kept.missing(leaves, len(s.query)) == 0 {
		return kept, nil
	}
	stored, err := s.vectors.table.load(ctx, s.all, number)
	if err != nil {
		return nil, err
	}
	if kept != nil && kept.missing(leaves, len(s.query)) <= stored.missing(leaves, len(s.query)) {
		return kept, nil
	}
	s.vectors.kept.put(key, stored, s.drops)
	return stored, nil
}

// want reads the texts of a batch that begins with a leaf and continues with older ones.
func (s *Similarity) want(ctx context.Context, number uint64, leaf int) error {
	m := &batch{number: number, page: s.page}
	for ; leaf >= 0 && len(m.leaves) < batchTexts; leaf-- {
		if !s.page.has(leaf, len(s.query)) && s.sends(number*bodypages.Leaves+uint64(leaf)) {
			m.leaves = append(m.leaves, leaf)
		}
	}
	part, first := s.all, number*bodypages.Leaves
	part.From, part.To = first, min(s.all.To, first+bodypages.Leaves)
	texts := map[int]string{}
	_, err := s.texts.Texts(ctx, part, func(leaf uint64, text []byte) error {
		if at := int(leaf - first); slices.Contains(m.leaves, at) {
			texts[at] = beginning(string(text), maxTextBytes)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, at := range m.leaves {
		text, found := texts[at]
		if !found {
			return fmt.Errorf("%w: leaf %d of %s has no text", bodypages.ErrFormat, first+uint64(at), s.all.Owner)
		}
		m.texts = append(m.texts, text)
	}
	s.missing = m
	return nil
}

// Fill gets the missing batch embedded. If several searches need it, one embeds it and
// the others wait. If ctx ends first, the call continues, for the next search.
func (s *Similarity) Fill(ctx context.Context) error {
	m := s.missing
	s.missing = nil
	done := s.vectors.flights.DoChan(fmt.Sprint(s.all.Owner, " ", m.number), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		return s.fill(ctx, m)
	})
	select {
	case filled := <-done:
		s.page, _ = filled.Val.(*vectorPage)
		return filled.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Similarity) fill(ctx context.Context, m *batch) (*vectorPage, error) {
	vectors, err := s.vectors.embedder.embedEach(ctx, m.texts)
	if err != nil {
		return nil, err
	}
	// A refused text is never sent again. The endpoint has embedded the query before: if it
	// now refuses that too, it refuses everything, and nothing is wrong with the texts.
	if slices.ContainsFunc(vectors, func(v vector) bool { return v == nil }) {
		if _, err := s.vectors.embedder.embed(ctx, []string{s.asked}); err != nil {
			return nil, err
		}
	}
	page := m.page.with(m.leaves, vectors)
	s.vectors.kept.put(vectorKey{s.all.Owner, m.number}, page, s.drops)
	return page, s.vectors.table.save(ctx, s.all, m.number, page)
}

// asked returns what the query asks for, in lower case, as texts are, and without the
// parts that it excludes. It is empty if the query asks for nothing.
func (q *Query) asked() string {
	if q.empty {
		return ""
	}
	var pieces []string
	for rest := q.text; rest != ""; {
		piece, negated, _, after := nextPiece(rest)
		if rest = after; !negated && strings.TrimSpace(piece) != "" {
			pieces = append(pieces, piece)
		}
	}
	return beginning(strings.ToLower(strings.Join(pieces, " ")), maxTextBytes)
}

// Asks reports whether the query asks for anything.
func (q *Query) Asks() bool { return q.asked() != "" }

// Fused returns the hits of the words and the nearest memories, in ascending order. A
// score is the sum of 1/(60+rank) over both orders. The ranks are among all leaves that
// the query allows, so a page scores as the previous one did, whatever the filter. Of the
// memories without a word of the query, only the nearest ones that pass are hits.
func (r *Ranking) Fused(s *Similarity, passes func(leaf uint64) bool) []Hit {
	barred := newLeaves(r.matches, r.all.To).barred
	words := r.Hits()
	byScore := func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Leaf, a.Leaf)) }
	slices.SortFunc(words, byScore)
	scores := make(map[uint64]float64, len(words)+nearest)
	for rank, h := range words {
		scores[h.Leaf] = 1 / float64(rankConstant+rank+1)
	}
	var near []Hit
	for leaf := s.next; leaf < r.all.To; leaf++ {
		if s.cosines[leaf] > 0 && !barred[leaf] {
			near = append(near, Hit{leaf, float64(s.cosines[leaf])})
		}
	}
	slices.SortFunc(near, byScore)
	passed := 0
	for rank, h := range near {
		_, hasWord := scores[h.Leaf]
		if passes(h.Leaf) {
			passed++
		}
		if hasWord || passed <= nearest {
			scores[h.Leaf] += 1 / float64(rankConstant+rank+1)
		}
	}
	hits := make([]Hit, 0, len(scores))
	for leaf, score := range scores {
		hits = append(hits, Hit{leaf, score})
	}
	slices.SortFunc(hits, func(a, b Hit) int { return cmp.Compare(a.Leaf, b.Leaf) })
	return hits
}
