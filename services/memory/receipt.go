package memory

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memory-ledger/ledger/anchoring/receipt"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/leaf"
	"github.com/memory-ledger/ledger/projections/batches"
	"github.com/memory-ledger/ledger/projections/memories"
	"github.com/memory-ledger/ledger/projections/tree"
	"github.com/memory-ledger/ledger/services/keystore"
)

// Receipt returns what anybody needs to check a memory without us: what was
// hashed, the way from there to the root of its batch, and from that to the
// newest commitment that was read back from the chain.
func (s *Service) Receipt(ctx context.Context, owner events.Owner, id string) (*receipt.Receipt, error) {
	m, err := s.find(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	key, err := s.Keys.Find(ctx, owner)
	if err != nil {
		return nil, err
	}
	r := &receipt.Receipt{Version: receipt.Version, Leaf: m.LeafHash, LeafIndex: m.LeafIndex, Consistency: []events.Hash{}}
	if r.Entry, err = entryOf(key, &m); err != nil {
		return nil, err
	}
	size, signature, err := s.provenSize(ctx, owner, m.LeafIndex)
	if err != nil {
		return nil, err
	}
	inclusion, err := tree.Inclusion(ctx, s.Pool, owner, m.LeafIndex, size)
	if err != nil {
		return nil, fmt.Errorf("prove leaf %d in %d: %w", m.LeafIndex, size, err)
	}
	r.TreeSize, r.BatchRoot = size, inclusion.Root
	r.Siblings, r.Directions = inclusion.Siblings, inclusion.Directions
	if signature == nil {
		return r, nil
	}
	return r, s.anchor(ctx, owner, r)
}

// entryOf opens a memory and salts it again: the salt follows from the
// owner's key and the memory itself.
func entryOf(key *keystore.OwnerKey, m *memories.Memory) (receipt.Entry, error) {
	content, err := key.Open(m.ID, m.Sealed)
	if err != nil {
		return receipt.Entry{}, err
	}
	salted, err := leaf.New(key.LeafSecret(), leaf.Memory{Content: content, Metadata: m.Metadata, Owner: m.Owner})
	if err != nil {
		return receipt.Entry{}, fmt.Errorf("salt memory: %w", err)
	}
	return receipt.Entry{
		Content: content, Metadata: jsontext.Value(m.Metadata.String()), Owner: m.Owner, Salt: salted.Salt, V: leaf.Version,
	}, nil
}

// anchor adds the newest confirmed batch, which covers at least as much as the
// memory's own.
func (s *Service) anchor(ctx context.Context, owner events.Owner, r *receipt.Receipt) error {
	newest, _, err := batches.LatestConfirmed(ctx, s.Pool, owner)
	if err != nil {
		return fmt.Errorf("find newest batch: %w", err)
	}
	r.Anchor = &receipt.Anchor{
		Cluster: newest.Cluster, ProgramID: newest.ProgramID, Account: newest.Account, TxSignature: newest.Signature,
		Slot: newest.Slot, CommittedSize: newest.Size, CommittedRoot: newest.Root,
	}
	if newest.Size == r.TreeSize {
		return nil
	}
	r.Consistency, err = tree.Consistency(ctx, s.Pool, owner, r.TreeSize, newest.Size)
	if err != nil {
		return fmt.Errorf("consistency from %d to %d: %w", r.TreeSize, newest.Size, err)
	}
	return nil
}
