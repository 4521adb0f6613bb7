// Package search finds an owner's memories whose text contains a query. The texts are
// sealed, so a search opens all of them.
//
// The plain path has two parts. reader reads sealed bodies from the read models, opens
// them, and folds their case. segment.find looks for the query in the folded texts.
// BodySegments is a cache in front of reader.
package search

import (
	"bytes"
	"cmp"
	"context"
	"runtime"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/readmodel/bodypages"
	"github.com/memory-ledger/ledger/services/keystore"
)

// Range is a run of an owner's leaves.
type Range struct {
	Owner    events.Owner
	Key      *keystore.OwnerKey
	From, To uint64 // leaf indexes, To exclusive
	Erased   uint64 // leaves before this index can't be opened: their texts are empty
}

// pages returns the numbers of the pages that hold the range, end exclusive.
func (r Range) pages() (first, end uint64) {
	return r.From / bodypages.Leaves, (r.To + bodypages.Leaves - 1) / bodypages.Leaves
}

// Found is the result of one call of Find.
type Found struct {
	Leaves  []uint64 // the indexes of the leaves that match, in rising order
	Reached uint64   // the first leaf that was not searched
	Bytes   uint64   // bytes of text searched
}

// source yields the folded texts of a range, page by page, in any order. It may end
// early, at the beginning of a page; reached is the first leaf that it left out. It may
// also have yielded pages beyond reached. The last page may hold leaves beyond the range.
type source interface {
	segments(ctx context.Context, r Range, yield func(segment) error) (reached uint64, err error)
}

// Engine finds memories.
type Engine struct{ texts source }

// New returns an Engine that reads from the database. It caches what it read in kept,
// unless kept is nil.
func New(pool *pgxpool.Pool, kept *BodySegments) *Engine {
	if kept == nil {
		return &Engine{reader{pool}}
	}
	return &Engine{keptTexts{kept, reader{pool}}}
}

// Find searches a range that begins at the start of a page. If the texts are long, it
// ends early, at Found.Reached. The leaves must be in the read model.
//
// Errors: bodypages.ErrFormat and keystore.ErrSealed for damaged data.
func (e *Engine) Find(ctx context.Context, r Range, q *Query) (Found, error) {
	var found Found
	reached, err := e.texts.segments(ctx, r, func(s segment) error {
		found.Bytes += uint64(len(s.texts))
		found.Leaves = s.find(q, found.Leaves)
		// Let short requests run between segments. The Go scheduler preempts a busy
		// goroutine only after ten milliseconds.
		runtime.Gosched()
		return ctx.Err()
	})
	if err != nil {
		return Found{}, err
	}
	found.Reached = reached
	slices.Sort(found.Leaves)
	found.Leaves = slices.DeleteFunc(found.Leaves, func(leaf uint64) bool { return leaf < r.From || leaf >= reached })
	return found, nil
}

// Texts yields the folded texts of a range that begins at the start of a page, in the
// order of the leaves. If the texts are long, it ends early, at the beginning of a page;
// reached is the first leaf that it left out. A text is valid until yield returns.
func (e *Engine) Texts(ctx context.Context, r Range, yield func(leaf uint64, text []byte) error) (reached uint64, err error) {
	var all []segment
	reached, err = e.texts.segments(ctx, r, func(s segment) error {
		all = append(all, segment{s.first, bytes.Clone(s.texts)})
		return ctx.Err()
	})
	if err != nil {
		return 0, err
	}
	slices.SortFunc(all, func(a, b segment) int { return cmp.Compare(a.first, b.first) })
	for _, s := range all {
		leaf := s.first
		for text := range bytes.SplitSeq(bytes.TrimSuffix(s.texts, []byte{separator}), []byte{separator}) {
			if leaf >= reached {
				return reached, nil
			}
			if err := yield(leaf, text); err != nil {
				return 0, err
			}
			leaf++
		}
	}
	return reached, nil
}
