package memory

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/memory-ledger/ledger/events/leaf"
	"github.com/memory-ledger/ledger/projections/readmodel/bodypages"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/recall"
	"github.com/memory-ledger/ledger/services/search"
)

// ErrCursor: the text is not a cursor that was returned for such a selection.
var ErrCursor = errors.New("cursor is not one that this API gave out for this order")

// Order is the order of a selection.
type Order string

// Orders. Relevance applies to ranked selections only.
const (
	Oldest    Order = "oldest"
	Newest    Order = "newest"
	Relevance Order = "relevance"
)

// RankedLimit is the size of a ranked page if the selection has no limit.
const RankedLimit = 50

// Selection says which memories to select, in which order, and how many.
type Selection struct {
	Query  string
	Ranked bool // rank by words, instead of searching for the query as a substring
	Order  Order
	Limit  int    // of the page; 0: all, or RankedLimit of a ranked selection
	Cursor string // NextCursor of the page before; empty for the first page
	Filter memories.Filter
}

// Picked iterates over the memories of a selection.
type Picked struct {
	service *Service
	reader  Reader
	key     *keystore.OwnerKey
	hits    []recall.Hit // not yielded yet
	rest    *picking     // finds the hits after these, if the selection has no limit
	ranked  bool
	rows    int // how many rows to read next

	// NextCursor is the cursor of the next page, empty if there is none.
	NextCursor string
	// Abandoned, if set, reports that the client has left.
	Abandoned func() bool
}

// Select selects memories. The whole page is determined when it returns; the memories
// themselves are read as the caller asks for them. Without a limit, the first hits are
// determined, and the others as the caller comes to them. gone, if not nil, reports that
// the client has left.
//
// Errors: ErrCursor, ErrBusy, ErrAbandoned, and errors of damaged data.
func (s *Service) Select(ctx context.Context, r Reader, sel Selection, gone func() bool) (*Picked, error) {
	extent, err := s.extent(ctx, r)
	if err != nil {
		return nil, err
	}
	at, err := parsePlace(sel)
	if err != nil {
		return nil, err
	}
	p := &picking{service: s, reader: r, selection: sel, at: at, size: extent.leaves, without: extent.without, gone: gone}
	picked := &Picked{service: s, reader: r, ranked: sel.Ranked, Abandoned: gone}
	if p.size == 0 {
		return picked, nil
	}
	if p.key, err = s.Keys.Find(ctx, r.Owner); err != nil {
		return nil, err
	}
	picked.key = p.key
	if err := p.filter(ctx); err != nil {
		return nil, err
	}
	if sel.Ranked {
		err = p.rank(ctx)
	} else {
		err = p.look(ctx)
	}
	if err != nil {
		return nil, err
	}
	picked.hits, picked.NextCursor = p.page()
	if p.unlimited() && picked.NextCursor != "" {
		picked.rest, picked.NextCursor = p, ""
	}
	return picked, nil
}

// pageStart is where a page begins. A ranking ignores leaves from size on, which the first
// page did not know, so that pages neither repeat nor skip.
type pageStart struct {
	begun bool
	leaf  uint64 // the last leaf of the page before
	score float64
	size  uint64
}

// A cursor consists of the order's first letter and the leaf. For a ranking it also has the
// log's size and the bits of the score.
func (p pageStart) cursor(sel Selection) string {
	text := string(sel.Order[:1]) + strconv.FormatUint(p.leaf, 10)
	if !sel.Ranked {
		return text
	}
	var bits [8]byte
	binary.BigEndian.PutUint64(bits[:], math.Float64bits(p.score))
	text += "." + strconv.FormatUint(p.size, 10) + "." + hex.EncodeToString(bits[:])
	return text
}

func parsePlace(sel Selection) (p pageStart, err error) {
	if sel.Cursor == "" {
		return pageStart{}, nil
	}
	text, found := strings.CutPrefix(sel.Cursor, string(sel.Order[:1]))
	fields := strings.Split(text, ".")
	if !found || len(fields) != 1 && !sel.Ranked || len(fields) != 3 && sel.Ranked {
		return pageStart{}, ErrCursor
	}
	p.begun = true
	if p.leaf, err = strconv.ParseUint(fields[0], 10, 63); err != nil {
		return pageStart{}, ErrCursor
	}
	if !sel.Ranked {
		return p, nil
	}
	bits, err := hex.DecodeString(fields[2])
	if err != nil || len(bits) != 8 {
		return pageStart{}, ErrCursor
	}
	if p.size, err = strconv.ParseUint(fields[1], 10, 63); err != nil || p.leaf >= p.size {
		return pageStart{}, ErrCursor
	}
	p.score = math.Float64frombits(binary.BigEndian.Uint64(bits))
	return p, nil
}

// picking is a selection in progress.
type picking struct {
	service   *Service
	reader    Reader
	key       *keystore.OwnerKey
	selection Selection
	at        pageStart
	size      uint64
	passing   *leaf.Set // the leaves that pass the filter; nil: all pass
	without   without
	begun     bool
	gone      func() bool

	hits []recall.Hit // in the order of the selection; one more than the page has, if there are more
}

// slot does a piece of work in a time slot of the owner's.
func (p *picking) slot(ctx context.Context, work func() error) error {
	release, err := p.service.Long.Take(ctx, p.reader.Owner, p.begun)
	if err != nil {
		return err
	}
	defer release()
	p.begun = true
	if p.gone != nil && p.gone() {
		return ErrAbandoned
	}
	return work()
}

// filter finds the leaves that pass the filter.
func (p *picking) filter(ctx context.Context) error {
	if p.selection.Filter.All() {
		return nil
	}
	p.passing = new(leaf.Set)
	return p.slot(ctx, func() error {
		leaves, err := memories.Matching(ctx, p.service.Pool, p.reader.Owner, p.size, p.selection.Filter)
		for _, leaf := range leaves {
			p.passing.Add(leaf)
		}
		return err
	})
}

func (p *picking) passes(leaf uint64) bool {
	return !p.without.text(leaf) && (p.passing == nil || p.passing.Has(leaf))
}

// rank ranks all leaves and sorts those that pass the filter and follow the cursor.
func (p *picking) rank(ctx context.Context) error {
	if p.at.begun {
		if p.at.size > p.size {
			return ErrCursor // made up: a log only grows
		}
		p.size = p.at.size
	}
	p.at.size = p.size
	all, query := search.Range{Owner: p.reader.Owner, Key: p.key, Erased: p.without.erased, From: p.without.erased, To: p.size}, recall.ParseQuery(p.selection.Query)
	ranking := p.service.recall.Rank(all, query)
	for done := false; !done; {
		err := p.slot(ctx, func() error {
			if err := ranking.Step(ctx); err != nil {
				return err
			}
			if done = ranking.Done(); done {
				p.hits = p.ordered(ranking.Hits())
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ordered returns the best hits after the cursor, best first.
func (p *picking) ordered(hits []recall.Hit) []recall.Hit {
	last := recall.Hit{Leaf: p.at.leaf, Score: p.at.score}
	hits = slices.DeleteFunc(hits, func(h recall.Hit) bool {
		return p.at.begun && p.compare(h, last) <= 0 || !p.passes(h.Leaf)
	})
	return best(hits, p.limit()+1, p.compare)
}

// best returns the first n hits in an order, sorted.
func best(hits []recall.Hit, n int, compare func(a, b recall.Hit) int) []recall.Hit {
	for len(hits) > 4*n {
		// Hits beyond the n-th of a sample can't be among the first n.
		sample := slices.Clone(hits[:2*n])
		slices.SortFunc(sample, compare)
		worst := sample[n-1]
		before := len(hits)
		hits = slices.DeleteFunc(hits, func(h recall.Hit) bool { return compare(h, worst) > 0 })
		if len(hits) > before/2 {
			break
		}
	}
	slices.SortFunc(hits, compare)
	return hits[:min(n, len(hits))]
}

// compare is the order of the selection.
func (p *picking) compare(a, b recall.Hit) int {
	switch p.selection.Order {
	case Oldest:
		return cmp.Compare(a.Leaf, b.Leaf)
	case Newest:
		return cmp.Compare(b.Leaf, a.Leaf)
	default:
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Leaf, a.Leaf))
	}
}

// limit returns how many hits to look for: the page's maximum size, or unlimitedHits.
func (p *picking) limit() int {
	switch {
	case p.selection.Limit > 0:
		return p.selection.Limit
	case p.selection.Ranked:
		return RankedLimit
	default:
		return unlimitedHits
	}
}

// unlimitedHits bounds the hits that a selection without a limit holds while its client
// reads, however slowly and however long the log is. If every leaf matches, the first two
// pieces of a search find them and one more.
const unlimitedHits = firstLeaves + maxLeaves/4 - 1

// unlimited reports whether the selection is of all memories that match.
func (p *picking) unlimited() bool { return p.selection.Limit == 0 && !p.selection.Ranked }

// page returns the hits of the page, and the cursor of the next.
func (p *picking) page() (hits []recall.Hit, next string) {
	if len(p.hits) <= p.limit() {
		return p.hits, ""
	}
	hits = p.hits[:p.limit()]
	last := hits[len(hits)-1]
	return hits, pageStart{leaf: last.Leaf, score: last.Score, size: p.at.size}.cursor(p.selection)
}

// look searches for the query as a substring, from the cursor on, until the page is full.
func (p *picking) look(ctx context.Context) error {
	from, to := uint64(0), p.size
	newest := p.selection.Order == Newest
	if p.at.begun && newest {
		to = min(to, p.at.leaf)
	} else if p.at.begun {
		from = min(p.at.leaf+1, to) // the client may have made up its cursor
	}
	if utf8.RuneCountInString(p.selection.Query) > MaxContentBytes {
		return nil // no text is that long
	}
	if p.selection.Query == "" {
		p.all(from, to, newest)
		return nil
	}
	query := search.NewQuery(p.selection.Query)
	for stretch := uint64(firstLeaves); from < to && len(p.hits) <= p.limit(); stretch = maxLeaves / 4 {
		piece := search.Range{Owner: p.reader.Owner, Key: p.key, Erased: p.without.erased, From: from, To: min(to, from+stretch)}
		if newest {
			piece.From, piece.To = from, to
			if to-from > stretch {
				piece.From = (to - stretch) / bodypages.Leaves * bodypages.Leaves
			}
		}
		found, reached, err := p.piece(ctx, piece, query)
		if err != nil {
			return err
		}
		if newest {
			to = piece.From
			slices.Reverse(found)
		} else {
			from = reached
		}
		for _, leaf := range found {
			if p.passes(leaf) && len(p.hits) <= p.limit() {
				p.hits = append(p.hits, recall.Hit{Leaf: leaf})
			}
		}
	}
	return nil
}

// piece returns the matches in a range. It may begin in the middle of a page.
func (p *picking) piece(ctx context.Context, piece search.Range, query *search.Query) (leaves []uint64, reached uint64, err error) {
	begin := piece.From
	piece.From = begin / bodypages.Leaves * bodypages.Leaves
	for piece.From < piece.To {
		err := p.slot(ctx, func() error {
			found, err := p.service.engine.Find(ctx, piece, query)
			if err != nil {
				return err
			}
			leaves = append(leaves, found.Leaves...)
			piece.From = found.Reached
			return nil
		})
		if err != nil {
			return nil, 0, err
		}
	}
	return slices.DeleteFunc(leaves, func(leaf uint64) bool { return leaf < begin }), piece.To, nil
}

// all selects the leaves of a range that pass the filter.
func (p *picking) all(from, to uint64, newest bool) {
	for i := range to - from {
		leaf := from + i
		if newest {
			leaf = to - 1 - i
		}
		if len(p.hits) > p.limit() {
			return
		}
		if p.passes(leaf) {
			p.hits = append(p.hits, recall.Hit{Leaf: leaf})
		}
	}
}

// More reports whether there is anything left to read.
func (p *Picked) More() bool { return len(p.hits) > 0 }

// Next reads the next memories and calls yield for each, in a time slot of the owner's, so
// yield must not block.
func (p *Picked) Next(ctx context.Context, yield func(*View) error) error {
	last := p.hits[len(p.hits)-1].Leaf
	if err := p.next(ctx, yield); err != nil || len(p.hits) > 0 || p.rest == nil {
		return err
	}
	p.rest.at, p.rest.hits = pageStart{begun: true, leaf: last}, nil
	if err := p.rest.look(ctx); err != nil {
		return err
	}
	var more string
	if p.hits, more = p.rest.page(); more == "" {
		p.rest = nil
	}
	return nil
}

func (p *Picked) next(ctx context.Context, yield func(*View) error) error {
	release, err := p.service.Long.Take(ctx, p.reader.Owner, true)
	if err != nil {
		return err
	}
	defer release()
	if p.Abandoned != nil && p.Abandoned() {
		return ErrAbandoned
	}
	now := p.hits[:min(len(p.hits), max(1, p.rows), chunkRows)]
	if p.rows == 0 {
		now = p.hits[:min(len(p.hits), shortRows)]
	}
	rows, bytes, err := p.read(ctx, now)
	if err != nil {
		return err
	}
	opener := p.key.Opener()
	for i, m := range rows {
		if m.Retracted { // retracted since it was selected
			p.hits = p.hits[1:]
			continue
		}
		content, err := opener.Open([]byte(m.ID), m.Sealed)
		if err != nil {
			return err
		}
		v := viewOf(string(content), m)
		if p.ranked {
			v.Score = &now[i].Score
		}
		err = yield(&v)
		if err != nil && !errors.Is(err, ErrEnough) {
			return err
		}
		p.hits = p.hits[1:]
		if err != nil {
			break
		}
	}
	p.rows = max(1, pieceBytes/max(1, bytes/len(rows)))
	return nil
}

// read returns the rows of some hits, in the order of the hits.
func (p *Picked) read(ctx context.Context, hits []recall.Hit) (rows []*memories.Memory, bytes int, err error) {
	leaves := make([]uint64, len(hits))
	for i, h := range hits {
		leaves[i] = h.Leaf
	}
	slices.Sort(leaves)
	found := make(map[uint64]*memories.Memory, len(hits))
	err = memories.At(ctx, p.service.Pool, p.reader.Owner, leaves, func(m *memories.Memory) error {
		found[m.LeafIndex] = m
		bytes += widthOf(m)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	for _, h := range hits {
		m := found[h.Leaf]
		if m == nil {
			return nil, 0, fmt.Errorf("read memories: leaf %d is not in the read model", h.Leaf)
		}
		rows = append(rows, m)
	}
	return rows, bytes, nil
}

// texts is the source of texts for rankings.
type texts struct {
	*search.Engine
	service *Service
}

// Times implements recall.Texts.
func (t texts) Times(ctx context.Context, r search.Range) ([]time.Time, error) {
	return memories.Times(ctx, t.service.Pool, r.Owner, r.From, r.To)
}
