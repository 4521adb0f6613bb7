package memory

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memory-ledger/ledger/anchoring/receipt"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/leaf"
	"github.com/memory-ledger/ledger/projections/readmodel/batches"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/projections/tree"
	"github.com/memory-ledger/ledger/services/keystore"
)

// Receipt returns everything that a verifier needs to check a memory without this service:
// the hashed data, the proof up to the root of its batch, and from there to the newest
// commitment that was read back from the chain.
func (s *Service) Receipt(ctx context.Context, reader Reader, id string) (*receipt.Receipt, error) {
	m, err := s.find(ctx, reader, id)
	if err != nil {
		return nil, err
	}
	if m.Retracted { // a receipt would contain the text
		return nil, ErrRetracted
	}
	key, err := s.Keys.Find(ctx, reader.Owner)
	if err != nil {
		return nil, err
	}
	r := &receipt.Receipt{Version: receipt.Version, Leaf: m.LeafHash, LeafIndex: m.LeafIndex, Consistency: []events.Hash{}}
	if r.Entry, err = entryOf(key, m); err != nil {
		return nil, err
	}
	e, inclusion, signature, err := s.include(ctx, reader, m)
	if err != nil {
		return nil, err
	}
	r.TreeSize, r.BatchRoot = inclusion.Size, inclusion.Root
	r.Siblings, r.Directions = inclusion.Siblings, inclusion.Directions
	if signature == nil {
		return r, nil
	}
	return r, s.anchor(ctx, reader.Owner, r, e.newest)
}

// entryOf opens a memory and recomputes its salt, which derives from the owner's key, the
// memory itself and, for a writer who may not read, the credential.
func entryOf(key *keystore.OwnerKey, m *memories.Memory) (receipt.Entry, error) {
	content, err := key.Open(m.ID, m.Sealed)
	if err != nil {
		return receipt.Entry{}, err
	}
	secret, err := key.LeafSecret(m.Salt, m.Via)
	if err != nil {
		return receipt.Entry{}, fmt.Errorf("salt memory: %w", err)
	}
	salted, err := leaf.New(secret, leaf.Memory{Content: content, Metadata: m.Metadata, Owner: m.Owner})
	if err != nil {
		return receipt.Entry{}, fmt.Errorf("salt memory: %w", err)
	}
	return receipt.Entry{
		Content: content, Metadata: jsontext.Value(m.Metadata.String()), Owner: m.Owner, Salt: salted.Salt, V: leaf.Version,
	}, nil
}

// anchor adds the newest confirmed batch, which covers at least the leaves of the memory's
// own batch.
func (s *Service) anchor(ctx context.Context, owner events.Owner, r *receipt.Receipt, newest *batches.Batch) (err error) {
	r.Anchor = anchorOf(newest)
	if newest.Size == r.TreeSize {
		return nil
	}
	r.Consistency, err = tree.Consistency(ctx, s.Pool, owner, r.TreeSize, newest.Size)
	if err != nil {
		return fmt.Errorf("consistency from %d to %d: %w", r.TreeSize, newest.Size, err)
	}
	return nil
}

func anchorOf(newest *batches.Batch) *receipt.Anchor {
	return &receipt.Anchor{
		Cluster: newest.Cluster, ProgramID: newest.ProgramID, Account: newest.Account, TxSignature: newest.Signature,
		Slot: newest.Slot, CommittedSize: newest.Size, CommittedRoot: newest.Root,
	}
}
