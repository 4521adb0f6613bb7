package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/memory-ledger/ledger/events/verify/leaf"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/recall"
	"github.com/memory-ledger/ledger/services/search"
)

// ErrCursor: the text is not a cursor that was returned for such a selection.
var ErrCursor = errors.New("cursor is not one that this API gave out for this order")

type Order string

// Orders. Relevance applies to ranked selections only. Occurred is by the time at which
// memories occurred, newest first.
const (
	Oldest    Order = "oldest"
	Newest    Order = "newest"
	Relevance Order = "relevance"
	Occurred  Order = "occurred"
)

// RankedLimit is the size of a ranked page if the selection has no limit.
const RankedLimit = 50

// Selection says which memories to select, in which order, and how many. Lists, searches,
// recall, agent cases and exports are all selections.
type Selection struct {
	Query  string // a substring, or with Ranked, words; empty: all memories
	Ranked bool
	Order  Order
	Limit  int    // of the page; 0: all, or RankedLimit of a ranked selection
	Cursor string // NextCursor of the page before; empty for the first page
	Filter memories.Filter
	// From and To bound the leaves, To exclusive; 0: no bound.
	From, To uint64

	// Damaged also yields damaged memories, without text and metadata. Otherwise they are
	// left out, and counted.
	Damaged bool
	// Every also yields retracted memories, without text.
	Every bool
	// Current leaves out memories that others supersede.
	Current bool
}

// Picked iterates over the memories of a selection. It is not safe for concurrent use.
type Picked struct {
	service   *Service
	reader    Reader
	key       *keystore.OwnerKey // nil if the log is empty
	kept      *kept              // where the texts are kept that the key opens
	selection Selection
	query     *search.Query // nil: all memories, or a ranking
	log       uint64        // its size
	size      uint64        // the first leaf that is not selected
	erased    uint64        // how many leaves, from the first on
	visible   *leaf.Set     // the leaves that the reader may know of; nil: all
	present   leaf.Set      // those that have a text, unless every leaf counts, and are not left out as superseded
	passing   leaf.Set      // those of present that pass the filter
	moments   []time.Time   // when each leaf occurred, for that order only
	at        pageStart
	from, to  uint64       // leaves that were not looked at
	begun     bool         // had a time slot, or is a ranking under way
	hits      []recall.Hit // in the order of the selection, not yielded yet
	rows      int          // how many rows to read next
	leftOut   int
	damaged   []uint64 // found where a query looks
	added     int      // how many indexes of the first chunk the ranking has
	ranked    int      // how many memories the ranking found

	// NextCursor is the cursor of the next page, empty if there is none.
	NextCursor string
	// Abandoned, if set, reports that the client has left.
	Abandoned func() bool
}

// Select selects memories. The whole page is determined when it returns; the memories
// themselves are read as the caller asks for them. Without a limit, the hits are determined
// as the caller comes to them. gone, if not nil, reports that the client has left.
//
// Errors: ErrCursor, ErrBusy, ErrAbandoned.
func (s *Service) Select(ctx context.Context, r Reader, sel Selection, gone func() bool) (*Picked, error) {
	extent, err := s.extent(ctx, r)
	if err != nil {
		return nil, err
	}
	p := &Picked{service: s, reader: r, selection: sel, log: extent.leaves, size: extent.leaves, erased: extent.erased, Abandoned: gone}
	if p.at, err = parsePlace(sel); err != nil {
		return nil, err
	}
	if sel.To > 0 {
		p.size = min(p.size, sel.To)
	}
	if p.size <= sel.From {
		return p, nil
	}
	p.kept = s.Texts.kept(r.Owner) // before the key: what an old key opens is not kept
	if p.key, err = s.Keys.Find(ctx, r.Owner); err != nil {
		return nil, err
	}
	if sel.knowsSize() {
		if err := p.first(); err != nil {
			return nil, err
		}
		release, err := s.Slots.Rank(ctx, r.Owner)
		if err != nil {
			return nil, err
		}
		defer release()
		p.begun = true
	}
	if err := p.filter(ctx); err != nil {
		return nil, err
	}
	if sel.Ranked {
		if err := p.rank(ctx); err != nil {
			return nil, err
		}
		p.cut(cmp.Or(sel.Limit, RankedLimit))
		return p, nil
	}
	p.begin()
	if sel.Order == Occurred {
		return p, p.sort(ctx)
	}
	if sel.Limit == 0 {
		return p, nil
	}
	for p.from < p.to && len(p.hits) <= sel.Limit {
		if err := p.look(ctx); err != nil {
			return nil, err
		}
	}
	p.cut(sel.Limit)
	return p, nil
}

// pageStart is where a page begins. A ranking ignores leaves from size on, which the first
// page did not know, so that new memories make pages neither repeat nor skip.
type pageStart struct {
	begun bool
	leaf  uint64 // the last leaf of the page before
	score float64
	size  uint64
}

// A cursor consists of the order's first letter and the leaf. For a ranking and for the
// order by occurrence it also has the log's size and the bits of the score.
func (p pageStart) cursor(sel Selection) string {
	text := string(sel.Order[:1]) + strconv.FormatUint(p.leaf, 10)
	if !sel.knowsSize() {
		return text
	}
	return fmt.Sprintf("%s.%d.%016x", text, p.size, math.Float64bits(p.score))
}

// knowsSize reports whether later pages must ignore leaves that the first one did not know.
func (sel Selection) knowsSize() bool { return sel.Ranked || sel.Order == Occurred }

// Check returns ErrCursor for a cursor that was not given out for such a selection.
func (sel Selection) Check() error {
	_, err := parsePlace(sel)
	return err
}

func parsePlace(sel Selection) (p pageStart, err error) {
	if sel.Cursor == "" {
		return pageStart{}, nil
	}
	text, found := strings.CutPrefix(sel.Cursor, string(sel.Order[:1]))
	fields := strings.Split(text, ".")
	if !found || len(fields) != 1 && !sel.knowsSize() || len(fields) != 3 && sel.knowsSize() {
		return pageStart{}, ErrCursor
	}
	p.begun = true
	if p.leaf, err = strconv.ParseUint(fields[0], 10, 63); err != nil {
		return pageStart{}, ErrCursor
	}
	if !sel.knowsSize() {
		return p, nil
	}
	bits, err := strconv.ParseUint(fields[2], 16, 64)
	if err != nil {
		return pageStart{}, ErrCursor
	}
	if p.size, err = strconv.ParseUint(fields[1], 10, 63); err != nil || p.leaf >= p.size {
		return pageStart{}, ErrCursor
	}
	p.score = math.Float64frombits(bits)
	return p, nil
}

// slot does a piece of work in a time slot of the owner's.
func (p *Picked) slot(ctx context.Context, work func() error) error {
	release, err := p.service.Slots.Take(ctx, p.reader.Owner, p.begun)
	if err != nil {
		return err
	}
	defer release()
	p.begun = true
	if p.Abandoned != nil && p.Abandoned() {
		return ErrAbandoned
	}
	return work()
}

// filter finds the leaves that pass the filter.
func (p *Picked) filter(ctx context.Context) error {
	sel := p.selection
	p.present = leaf.Below(p.size)
	if !sel.Every {
		if err := p.slot(ctx, func() (err error) {
			p.present, err = p.service.present(ctx, p.reader.Owner, p.size, p.erased)
			return err
		}); err != nil {
			return err
		}
	}
	if sel.Filter.All() && p.reader.Namespaces == nil && !sel.Current && sel.Order != Occurred {
		p.passing = slices.Clone(p.present)
		return nil
	}
	pool, owner := p.service.Pool, p.reader.Owner
	keep := func(of leaf.Set, f memories.Filter) (*leaf.Set, error) {
		if f.All() {
			return nil, nil
		}
		set := new(leaf.Set)
		for from := uint64(0); from < p.size; from += pieceLeaves {
			if err := p.slot(ctx, func() error {
				leaves, err := memories.Matching(ctx, pool, owner, from, min(p.size, from+pieceLeaves), f)
				for _, leaf := range leaves {
					set.Add(leaf)
				}
				return err
			}); err != nil {
				return nil, err
			}
		}
		of.Keep(*set)
		return set, nil
	}
	var err error
	if p.visible, err = keep(p.present, memories.Filter{Namespaces: p.reader.Namespaces}); err != nil {
		return err
	}
	if sel.Current {
		var corrections []memories.Correction
		if err := p.slot(ctx, func() (err error) {
			corrections, err = memories.Corrections(ctx, pool, owner, p.size)
			return err
		}); err != nil {
			return err
		}
		for _, c := range corrections {
			if p.sees(c.By) { // else the reader would learn of it
				p.present.Remove(c.Leaf)
			}
		}
	}
	p.passing = slices.Clone(p.present)
	if _, err = keep(p.passing, sel.Filter); err != nil || sel.Order != Occurred {
		return err
	}
	return p.slot(ctx, func() error {
		p.moments, err = memories.Moments(ctx, pool, owner, p.size)
		return err
	})
}

// sees reports whether the reader may know of a leaf.
func (p *Picked) sees(leaf uint64) bool { return p.visible == nil || p.visible.Has(leaf) }

// Matched returns how many memories the selection has on all of its pages. It is unknown,
// nil, where later texts must be looked at.
func (p *Picked) Matched() *int {
	switch {
	case p.selection.Ranked:
		return &p.ranked
	case p.selection.Query != "":
		return nil
	}
	return new(p.passing.Count())
}

// first remembers the size of the log at the first page.
func (p *Picked) first() error {
	if p.at.begun {
		if p.at.size > p.size {
			return ErrCursor // made up: a log only grows
		}
		p.size = p.at.size
	}
	p.at.size = p.size
	return nil
}

// sort finds all hits of a selection by the time at which they occurred.
func (p *Picked) sort(ctx context.Context) error {
	for p.from < p.to {
		if err := p.look(ctx); err != nil {
			return err
		}
	}
	last := recall.Hit{Leaf: p.at.leaf}
	if p.at.begun {
		p.hits = slices.DeleteFunc(p.hits, func(h recall.Hit) bool { return p.compare(h, last) <= 0 })
	}
	slices.SortFunc(p.hits, p.compare)
	p.cut(cmp.Or(p.selection.Limit, math.MaxInt))
	p.moments = nil // the client may read slowly
	return nil
}

// rank ranks all leaves and keeps the best that pass the filter and follow the cursor. A
// memory that was taken back or corrected changes no score, and hides no related word.
func (p *Picked) rank(ctx context.Context) error {
	ranking, words := recall.ParseQuery(p.selection.Query).Rank(), new(recall.Dictionary)
	var chunks []*chunk // read, but not ranked yet
	for next := uint64(0); next < p.size || len(chunks) > 0; {
		err := p.slot(ctx, func() (err error) {
			if len(chunks) == 0 {
				next, err = p.texts(ctx, next, min(p.size, next+pieceLeaves), func(c *chunk) { chunks = append(chunks, c) })
			}
			if err == nil {
				chunks = p.rankNext(chunks, ranking, words)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return p.slot(ctx, func() error {
		var hits []recall.Hit
		if p.selection.Order == Relevance && !p.at.begun {
			hits, p.ranked = ranking.Best(max(candidates, cmp.Or(p.selection.Limit, RankedLimit))+1, p.size, p.present.Has, p.passing.Has)
		} else {
			hits = slices.DeleteFunc(ranking.Hits(p.size, p.present.Has), func(h recall.Hit) bool { return !p.passing.Has(h.Leaf) })
			p.ranked = len(hits)
		}
		if p.selection.Order == Relevance && p.selection.Query != "" {
			if err := p.newerFirst(ctx, hits); err != nil {
				return err
			}
		}
		last := recall.Hit{Leaf: p.at.leaf, Score: p.at.score}
		hits = slices.DeleteFunc(hits, func(h recall.Hit) bool { return p.at.begun && p.compare(h, last) <= 0 })
		p.hits = best(hits, cmp.Or(p.selection.Limit, RankedLimit)+1, p.compare)
		return nil
	})
}

// candidates is how many of the best hits newerFirst looks at.
const candidates = 24

// newerFirst changes the scores of the best hits, which ascend by their leaves, so that the
// newer stands first of those that say nearly the same.
func (p *Picked) newerFirst(ctx context.Context, hits []recall.Hit) error {
	var all []recall.Candidate
	for _, h := range best(slices.Clone(hits), candidates, p.compare) {
		if _, err := p.texts(ctx, h.Leaf, h.Leaf+1, func(c *chunk) {
			all = append(all, recall.Candidate{Hit: h, Text: c.text(h.Leaf), Created: c.created[h.Leaf-c.first()]})
		}); err != nil {
			return err
		}
	}
	recall.NewerFirst(all)
	for _, c := range all {
		at, _ := slices.BinarySearchFunc(hits, c.Leaf, func(h recall.Hit, leaf uint64) int { return cmp.Compare(h.Leaf, leaf) })
		hits[at].Score = c.Score
	}
	return nil
}

// best returns the first n hits in an order, sorted.
func best(hits []recall.Hit, n int, compare func(a, b recall.Hit) int) []recall.Hit {
	slices.SortFunc(hits, compare)
	return hits[:min(n, len(hits))]
}

func (p *Picked) compare(a, b recall.Hit) int {
	switch p.selection.Order {
	case Newest:
		return cmp.Compare(b.Leaf, a.Leaf)
	case Occurred:
		return cmp.Or(p.moments[b.Leaf].Compare(p.moments[a.Leaf]), cmp.Compare(b.Leaf, a.Leaf))
	case Relevance:
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Leaf, a.Leaf))
	default:
		return cmp.Compare(a.Leaf, b.Leaf)
	}
}

// cut ends the page after so many hits.
func (p *Picked) cut(limit int) {
	p.from = p.to
	if len(p.hits) > limit {
		p.hits = p.hits[:limit]
		last := p.hits[limit-1]
		p.NextCursor = pageStart{leaf: last.Leaf, score: last.Score, size: p.at.size}.cursor(p.selection)
		if !p.selection.knowsSize() { // those after the last hit belong to the next page
			p.damaged = slices.DeleteFunc(p.damaged, func(leaf uint64) bool { return p.compare(recall.Hit{Leaf: leaf}, last) > 0 })
		}
	}
	p.leaveOut()
}

// leaveOut counts the damaged texts that were found.
func (p *Picked) leaveOut() {
	p.service.tellDamaged(p.reader, len(p.damaged))
	p.leftOut, p.damaged = p.leftOut+len(p.damaged), nil
}

// begin sets what a selection that is not ranked looks at.
func (p *Picked) begin() {
	p.from, p.to = p.selection.From, p.size
	switch {
	case p.selection.Order == Occurred: // sort skips what was on earlier pages
	case p.at.begun && p.selection.Order == Newest:
		p.to = min(p.to, max(p.from, p.at.leaf))
	case p.at.begun:
		p.from = min(max(p.from, p.at.leaf+1), p.to) // the client may have made up its cursor
	}
	if utf8.RuneCountInString(p.selection.Query) > MaxContentBytes {
		p.from = p.to // no text is that long
	} else if p.selection.Query != "" {
		p.query = search.NewQuery(p.selection.Query)
	}
}

// look finds the next hits. It may find none, even if later leaves have some.
func (p *Picked) look(ctx context.Context) error {
	newest := p.selection.Order == Newest
	if p.query == nil {
		for enough := len(p.hits) + max(p.selection.Limit+1, chunkRows); p.from < p.to && len(p.hits) < enough; {
			leaf := p.from
			if newest {
				p.to--
				leaf = p.to
			} else {
				p.from++
			}
			p.hit(leaf)
		}
		return nil
	}
	from, to := p.from, min(p.to, p.from/chunkLeaves*chunkLeaves+pieceLeaves)
	if newest {
		if to = p.to; to-from > pieceLeaves {
			from = (to-1)/chunkLeaves*chunkLeaves + chunkLeaves - pieceLeaves
		}
	}
	next, first := from, len(p.hits)
	for next < to {
		err := p.slot(ctx, func() (err error) {
			next, err = p.texts(ctx, next, to, func(c *chunk) {
				p.note(c, from, to)
				c.texts.Find(p.query, func(text int) {
					if leaf := c.first() + uint64(text); leaf >= from && leaf < to {
						p.hit(leaf)
					}
				})
			})
			return err
		})
		if err != nil {
			return err
		}
		if !newest {
			break // these hits may do
		}
	}
	if newest {
		slices.Reverse(p.hits[first:])
		p.to = from
	} else {
		p.from = next
	}
	return nil
}

func (p *Picked) hit(leaf uint64) {
	if p.passing.Has(leaf) {
		p.hits = append(p.hits, recall.Hit{Leaf: leaf})
	}
}

// note remembers the damaged texts of a chunk, within some leaves, and leaves them out.
func (p *Picked) note(c *chunk, from, to uint64) {
	for _, leaf := range c.damaged {
		if leaf >= from && leaf < to && p.passing.Has(leaf) {
			p.damaged = append(p.damaged, leaf)
			p.passing.Remove(leaf)
		}
	}
}
