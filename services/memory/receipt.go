package memory

import (
	"context"
	"fmt"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/events/verify/leaf"
	"github.com/memory-ledger/ledger/projections/readmodel/batches"
	"github.com/memory-ledger/ledger/projections/tree"
	"github.com/memory-ledger/ledger/services/keystore"
)

// Receipt returns everything that a verifier needs to check a memory without this service:
// the hashed data, the proof up to the root of its batch, and from there to the newest
// commitment that was read back from the chain.
func (s *Service) Receipt(ctx context.Context, reader Reader, id string) (*verify.Receipt, error) {
	m, err := s.find(ctx, reader, id)
	if err != nil {
		return nil, err
	}
	key, v, err := s.openFound(ctx, reader, m)
	if err != nil {
		return nil, err
	}
	r := &verify.Receipt{Version: verify.Version, LeafHash: m.LeafHash, LeafIndex: m.LeafIndex, Consistency: []events.Hash{}}
	if r.Entry, err = entryOf(key, reader.Owner, &v); err != nil {
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

// entryOf returns the entry of an opened memory, with the salt that it was hashed with.
func entryOf(key *keystore.OwnerKey, owner events.Owner, v *View) (verify.Entry, error) {
	salt := v.ownSalt
	if salt == "" {
		secret, err := key.LeafSecret(v.salt, v.Via)
		if err != nil {
			return verify.Entry{}, fmt.Errorf("salt memory: %w", err)
		}
		salted, err := leaf.New(secret, leaf.Memory{Content: v.Content, Metadata: canonical.Trusted(v.Metadata), Owner: owner})
		if err != nil {
			return verify.Entry{}, fmt.Errorf("salt memory: %w", err)
		}
		salt = salted.Salt
	}
	return verify.Entry{Content: v.Content, Metadata: v.Metadata, Owner: string(owner), Salt: salt, V: leaf.Version}, nil
}

// anchor adds the newest confirmed batch, which covers at least the leaves of the memory's
// own batch.
func (s *Service) anchor(ctx context.Context, owner events.Owner, r *verify.Receipt, newest *batches.Batch) error {
	r.Anchor = anchorOf(newest)
	if newest.Size == r.TreeSize {
		return nil
	}
	link, err := tree.Between(ctx, s.Pool, owner, r.TreeSize, newest.Size)
	if err != nil {
		return fmt.Errorf("consistency from %d to %d: %w", r.TreeSize, newest.Size, err)
	}
	r.Consistency = link.Path
	return nil
}

func anchorOf(newest *batches.Batch) *verify.Anchor {
	return &verify.Anchor{
		Cluster: newest.Cluster, ProgramID: newest.ProgramID, Account: newest.Account, TxSignature: newest.Signature,
		Slot: newest.Slot, CommittedSize: newest.Size, CommittedRoot: newest.Root,
	}
}
