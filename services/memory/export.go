package memory

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/memory-ledger/ledger/anchoring/export"
	"github.com/memory-ledger/ledger/anchoring/receipt"
	"github.com/memory-ledger/ledger/events/canonical"
	"github.com/memory-ledger/ledger/events/leaf"
	"github.com/memory-ledger/ledger/projections/tree"
)

// Export is an export of an owner's whole log.
type Export struct {
	*Cursor
	Header export.Header
	reader Reader
}

// Export returns the reader's log as it is now. Chunks are read from the database one by
// one, as the caller asks.
func (s *Service) Export(ctx context.Context, r Reader) (*Export, error) {
	e, err := s.extent(ctx, r) // before the size is fixed, so that the anchor covers no more than the export
	if err != nil {
		return nil, err
	}
	cursor, err := s.Range(ctx, r, 0, 0)
	if err != nil {
		return nil, err
	}
	cursor.everyLeaf = true
	root, err := tree.Root(ctx, s.Pool, r.Owner, cursor.Size())
	if err != nil {
		return nil, fmt.Errorf("root of %d leaves: %w", cursor.Size(), err)
	}
	x := &Export{Cursor: cursor, reader: r, Header: export.Header{
		Format: export.Format, Owner: r.Owner, TreeSize: cursor.Size(), Root: root,
	}}
	if e.newest != nil {
		x.Header.Anchor = anchorOf(e.newest)
	}
	return x, nil
}

// AppendLine appends the line of a memory, without a line end.
func (x *Export) AppendLine(v *View, b []byte) ([]byte, error) {
	l := export.Line{Index: v.LeafIndex, ID: v.ID, CreatedAt: v.CreatedAt, Via: v.Via, LeafHash: v.LeafHash}
	if v.retracted {
		line, err := json.Marshal(l)
		return append(b, line...), err
	}
	secret, err := x.key.LeafSecret(v.salt, v.Via)
	if err != nil {
		return nil, fmt.Errorf("salt memory: %w", err)
	}
	salted, err := leaf.New(secret, leaf.Memory{Content: v.Content, Metadata: canonical.Trusted(v.Metadata), Owner: x.reader.Owner})
	if err != nil {
		return nil, fmt.Errorf("salt memory: %w", err)
	}
	l.Entry = &receipt.Entry{Content: v.Content, Metadata: v.Metadata, Owner: x.reader.Owner, Salt: salted.Salt, V: leaf.Version}
	line, err := json.Marshal(l)
	return append(b, line...), err
}
