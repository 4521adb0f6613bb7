package search

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/projections/readmodel/bodypages"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/services/keystore"
)

// readBytes is the number of sealed bytes after which a read ends. One more page may
// follow: 67 MB if all its bodies have the maximum length.
const readBytes = 8 << 20

// errFull ends the read of full pages.
var errFull = errors.New("enough bytes for one read")

// reader is the source that reads sealed bodies and opens them.
type reader struct{ pool *pgxpool.Pool }

// segments implements source. Full pages are read from their read model and opened as
// they arrive. Other pages are built from rows: the last page while it is not full, a
// page with bodies that are too long for the read model, and a page that the read model
// lacks.
func (r reader) segments(ctx context.Context, s Range, yield func(segment) error) (reached uint64, err error) {
	o := opener{bodies: s.Key.Opener(), erased: s.Erased}
	first, end := s.pages()
	done := make([]bool, end-first)
	read := 0
	err = bodypages.Load(ctx, r.pool, s.Owner, first, s.To/bodypages.Leaves, func(p bodypages.Page) error {
		if read >= readBytes {
			end = p.First() / bodypages.Leaves
			return errFull
		}
		if len(p.Absent()) > 0 {
			return nil
		}
		read += p.Bytes()
		done[p.First()/bodypages.Leaves-first] = true
		return o.open(p, yield)
	})
	if err != nil && !errors.Is(err, errFull) {
		return 0, err
	}
	for n := first; n < end; n++ {
		if done[n-first] {
			continue
		}
		if n > first && read >= readBytes { // every read covers at least its first page
			return n * bodypages.Leaves, nil
		}
		p, err := r.pageOfRows(ctx, s, n*bodypages.Leaves)
		if err != nil {
			return 0, err
		}
		read += p.Bytes()
		if err := o.open(p, yield); err != nil {
			return 0, err
		}
	}
	return min(s.To, end*bodypages.Leaves), nil
}

// pageOfRows reads the page that begins at the leaf first, up to the end of the range.
func (r reader) pageOfRows(ctx context.Context, s Range, first uint64) (bodypages.Page, error) {
	to := min(s.To, first+bodypages.Leaves)
	rows, err := memories.Load(ctx, r.pool, s.Owner, first, to)
	if err != nil {
		return bodypages.Page{}, err
	}
	if uint64(len(rows)) != to-first {
		return bodypages.Page{}, fmt.Errorf("load memories from %d: %d of %d leaves are in the read model", first, len(rows), to-first)
	}
	leaves := make([]bodypages.Leaf, len(rows))
	for i := range rows {
		id, err := uuid.Parse(rows[i].ID)
		if err != nil {
			return bodypages.Page{}, fmt.Errorf("load memories: %w", err)
		}
		leaves[i] = bodypages.Leaf{ID: id, Sealed: rows[i].Sealed}
	}
	return bodypages.Of(first, leaves), nil
}

// opener makes segments from pages. It reuses its buffers.
type opener struct {
	bodies *keystore.Opener
	erased uint64
	id     []byte
	texts  []byte
}

func (o *opener) open(p bodypages.Page, yield func(segment) error) error {
	s := segment{first: p.First()}
	o.texts = o.texts[:0]
	for i, sealed := range p.Sealed {
		var text []byte
		if p.First()+uint64(i) >= o.erased {
			var err error
			o.id = p.AppendID(o.id[:0], i)
			if text, err = o.bodies.Open(o.id, sealed); err != nil {
				return err
			}
		}
		o.texts = append(appendFolded(o.texts, text), separator)
		if len(o.texts) < segmentBytes && i+1 < p.Len() {
			continue
		}
		s.texts = o.texts
		if err := yield(s); err != nil {
			return err
		}
		s.first, o.texts = p.First()+uint64(i)+1, o.texts[:0]
	}
	return nil
}
