package memory

import (
	"context"
	"fmt"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/projections/tree"
)

// Export is an export of an owner's whole log.
type Export struct {
	*Picked
	Header verify.ExportHeader
}

type exportLine struct {
	Index     uint64           `json:"index"`
	ID        string           `json:"id"`
	CreatedAt events.Timestamp `json:"createdAt"`
	Via       *events.Via      `json:"via"`
	LeafHash  events.Hash      `json:"leafHash"`
	Entry     *verify.Entry    `json:"entry"` // null if the memory was retracted, erased or damaged
	Damaged   bool             `json:"damaged,omitzero"`
}

// ExportEnd is the last line.
type ExportEnd struct {
	Complete bool   `json:"complete"`
	Leaves   uint64 `json:"leaves"`
}

// Export returns the reader's log as it is now. Chunks are read from the database one by
// one, as the caller asks.
func (s *Service) Export(ctx context.Context, r Reader, gone func() bool) (*Export, error) {
	e, err := s.extent(ctx, r) // before the size is fixed, so that the anchor covers no more than the export
	if err != nil {
		return nil, err
	}
	all, err := s.Select(ctx, r, Selection{Order: Oldest, Every: true, Damaged: true}, gone)
	if err != nil {
		return nil, err
	}
	root, err := tree.Root(ctx, s.Pool, r.Owner, all.Size())
	if err != nil {
		return nil, fmt.Errorf("root of %d leaves: %w", all.Size(), err)
	}
	x := &Export{Picked: all, Header: verify.ExportHeader{
		Format: verify.ExportFormat, Owner: string(r.Owner), TreeSize: all.Size(), Root: root,
	}}
	if e.newest != nil {
		x.Header.Anchor = anchorOf(e.newest)
	}
	return x, nil
}

// Line returns what the line of a memory holds.
func (x *Export) Line(v *View) (any, error) {
	l := exportLine{Index: v.LeafIndex, ID: v.ID, CreatedAt: v.CreatedAt, Via: v.Origin(), LeafHash: v.LeafHash}
	if l.Damaged = v.Damaged; !v.retracted && !v.Damaged {
		entry, err := entryOf(x.key, x.reader.Owner, v)
		if err != nil {
			return nil, err
		}
		l.Entry = &entry
	}
	return l, nil
}
