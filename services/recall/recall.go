package recall

import (
	"context"
	"fmt"
	"time"

	"github.com/memory-ledger/ledger/projections/readmodel/bodypages"
	"github.com/memory-ledger/ledger/services/search"
)

// Bounds of a block. A block ends with the page that reaches one of them. Making a block
// is not interrupted.
const (
	blockLeaves = 4096
	blockBytes  = 8 << 20
)

// Texts gives access to the texts of an owner's leaves.
type Texts interface {
	// Texts yields the folded texts of a range that begins with a page, or of a part of
	// it, in the order of the leaves; see [search.Engine.Texts].
	Texts(ctx context.Context, r search.Range, yield func(leaf uint64, text []byte) error) (reached uint64, err error)
	// Times returns when the leaves of a range were written.
	Times(ctx context.Context, r search.Range) ([]time.Time, error)
}

// Engine ranks memories.
type Engine struct {
	texts Texts
	kept  *Blocks // nil: nothing is kept
}

// New returns an Engine that keeps its blocks in kept, unless kept is nil.
func New(texts Texts, kept *Blocks) *Engine { return &Engine{texts, kept} }

// Ranking is a query in progress over an owner's log.
type Ranking struct {
	engine  *Engine
	query   *Query
	all     search.Range
	matches []match
	next    uint64 // the first leaf that was not searched
	kept    uint64 // the cache generation at the start
	words   dictionary
}

// Rank begins to rank the leaves of an owner up to all.To. Each leaf that has a word of
// the query scores by BM25. It gains 0.4 and 0.2 of the best score one and two leaves
// away, if that leaf was written within half an hour. It also gains up to a tenth for
// recency, which halves every 30 days before the newest memory.
func (e *Engine) Rank(all search.Range, q *Query) *Ranking {
	all.From = 0
	return &Ranking{engine: e, query: q, all: all, kept: e.kept.generation()}
}

// Done reports whether all leaves were searched.
func (r *Ranking) Done() bool { return r.next >= r.all.To }

// Step searches the leaves whose index is kept, and then makes at most one more block,
// which bounds its work.
//
// Errors: bodypages.ErrFormat and keystore.ErrSealed for damaged data.
func (r *Ranking) Step(ctx context.Context) error {
	for !r.Done() {
		b := r.engine.kept.get(r.all.Owner, r.next, r.all.To)
		made := b == nil
		if made {
			var err error
			if b, err = r.build(ctx, r.next); err != nil {
				return err
			}
			r.engine.kept.put(r.all.Owner, b, r.kept)
		}
		r.matches = append(r.matches, r.query.match(b))
		r.next = b.first + uint64(b.leaves())
		if made {
			return ctx.Err()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Hits returns the leaves that match, in ascending order, once the ranking is done.
func (r *Ranking) Hits() []Hit { return r.query.rank(r.matches, r.all.To) }

// build makes the block that begins with a leaf. The block ends at the end of a page or
// of the log, so that a block of full pages stays right as the log grows.
func (r *Ranking) build(ctx context.Context, from uint64) (*block, error) {
	part := r.all
	part.From, part.To = from, min(r.all.To, from+blockLeaves)
	if full := part.To / bodypages.Leaves * bodypages.Leaves; full > from {
		part.To = full
	}
	x := newBuilder(from, &r.words)
	x.block.short = part.To < from+blockLeaves
	times, err := r.engine.texts.Times(ctx, part)
	if err != nil {
		return nil, err
	}
	for bytes := 0; part.From < part.To && bytes < blockBytes; {
		reached, err := r.engine.texts.Texts(ctx, part, func(leaf uint64, text []byte) error {
			at := leaf - from
			if at != uint64(len(x.ends)) || at >= uint64(len(times)) {
				return fmt.Errorf("%w: the text of leaf %d of %s came after %d", bodypages.ErrFormat, leaf, r.all.Owner, len(x.ends))
			}
			x.add(text, uint32(times[at].Unix()))
			bytes += len(text)
			return nil
		})
		if err != nil {
			return nil, err
		}
		part.From = reached
	}
	x.block.short = x.block.short && part.From == part.To
	return x.finish(), nil
}
