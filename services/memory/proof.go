package memory

import (
	"context"
	"fmt"

	"github.com/memory-ledger/ledger/anchoring/chainview"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/batches"
	"github.com/memory-ledger/ledger/projections/tree"
)

// Proof is the answer of GET /memories/:id/proof.
type Proof struct {
	Proof struct {
		Leaf       events.Hash   `json:"leaf"`
		LeafIndex  uint64        `json:"leafIndex"`
		Siblings   []events.Hash `json:"siblings"`
		Directions []bool        `json:"directions"`
	} `json:"proof"`
	BatchRoot   events.Hash  `json:"batchRoot"`
	TxSignature *string      `json:"txSignature"`
	OnchainRoot *events.Hash `json:"onchainRoot"`
}

// Prove returns the inclusion proof of a memory: against the root that its
// batch committed, or, before that, of the whole log now.
func (s *Service) Prove(ctx context.Context, owner events.Owner, id string) (Proof, error) {
	m, err := s.find(ctx, owner, id)
	if err != nil {
		return Proof{}, err
	}
	size, signature, err := s.provenSize(ctx, owner, m.LeafIndex)
	if err != nil {
		return Proof{}, err
	}
	inclusion, err := tree.Inclusion(ctx, s.Pool, owner, m.LeafIndex, size)
	if err != nil {
		return Proof{}, fmt.Errorf("prove leaf %d in %d: %w", m.LeafIndex, size, err)
	}
	onchain, err := s.onchainRoot(ctx, owner)
	if err != nil {
		return Proof{}, err
	}
	p := Proof{BatchRoot: inclusion.Root, TxSignature: signature, OnchainRoot: onchain}
	p.Proof.Leaf, p.Proof.LeafIndex = inclusion.Leaf, inclusion.Index
	p.Proof.Siblings, p.Proof.Directions = inclusion.Siblings, inclusion.Directions
	return p, nil
}

func (s *Service) provenSize(ctx context.Context, owner events.Owner, leafIndex uint64) (uint64, *string, error) {
	batch, found, err := batches.Covering(ctx, s.Pool, owner, leafIndex)
	if err != nil {
		return 0, nil, fmt.Errorf("find batch: %w", err)
	}
	if found && batch.State == batches.Confirmed {
		return batch.Size, &batch.Signature, nil
	}
	size, err := s.Size(ctx, owner)
	return size, nil, err
}

// onchainRoot is what the owner's account was last seen to hold: by this
// process, or by the anchorer when it confirmed its newest batch, whichever
// looked later.
func (s *Service) onchainRoot(ctx context.Context, owner events.Owner) (*events.Hash, error) {
	batch, found, err := batches.LatestConfirmed(ctx, s.Pool, owner)
	if err != nil {
		return nil, fmt.Errorf("find newest batch: %w", err)
	}
	if !found {
		return nil, nil
	}
	if s.Chain == nil {
		return &batch.Root, nil
	}
	seen := s.Chain.Last(chainview.Account{Address: batch.Account, Program: batch.ProgramID, Owner: owner})
	if seen != nil && (batch.ConfirmedAt == nil || seen.At.After(batch.ConfirmedAt.Time())) {
		return &seen.Root, nil
	}
	return &batch.Root, nil
}

// LogHead is the answer of GET /log.
type LogHead struct {
	Owner        events.Owner `json:"owner"`
	TreeSize     uint64       `json:"treeSize"`
	Root         events.Hash  `json:"root"`
	AnchoredSize uint64       `json:"anchoredSize"`
	AnchoredRoot *events.Hash `json:"anchoredRoot"`
	TxSignature  *string      `json:"txSignature"`
}

// Head returns the size and root of the owner's log, now and as anchored.
func (s *Service) Head(ctx context.Context, owner events.Owner) (LogHead, error) {
	size, err := s.Size(ctx, owner)
	if err != nil {
		return LogHead{}, err
	}
	root, err := tree.Root(ctx, s.Pool, owner, size)
	if err != nil {
		return LogHead{}, fmt.Errorf("root of %d leaves: %w", size, err)
	}
	head := LogHead{Owner: owner, TreeSize: size, Root: root}
	batch, found, err := batches.LatestConfirmed(ctx, s.Pool, owner)
	if err != nil {
		return LogHead{}, fmt.Errorf("find newest batch: %w", err)
	}
	if found {
		head.AnchoredSize, head.AnchoredRoot, head.TxSignature = batch.Size, &batch.Root, &batch.Signature
	}
	return head, nil
}

// Consistency is the answer of GET /log/consistency.
type Consistency struct {
	From     uint64        `json:"from"`
	To       uint64        `json:"to"`
	FromRoot events.Hash   `json:"fromRoot"`
	ToRoot   events.Hash   `json:"toRoot"`
	Proof    []events.Hash `json:"proof"`
}

// ErrRange: the sizes are not 0 <= from <= to <= treeSize.
var ErrRange = fmt.Errorf("from and to must satisfy 0 <= from <= to <= treeSize")

// ProveConsistency links two sizes of the owner's log (RFC 9162).
func (s *Service) ProveConsistency(ctx context.Context, owner events.Owner, from, to uint64) (Consistency, error) {
	size, err := s.Size(ctx, owner)
	if err != nil {
		return Consistency{}, err
	}
	if from > to || to > size {
		return Consistency{}, ErrRange
	}
	c := Consistency{From: from, To: to}
	if c.FromRoot, err = tree.Root(ctx, s.Pool, owner, from); err != nil {
		return Consistency{}, fmt.Errorf("root of %d leaves: %w", from, err)
	}
	if c.ToRoot, err = tree.Root(ctx, s.Pool, owner, to); err != nil {
		return Consistency{}, fmt.Errorf("root of %d leaves: %w", to, err)
	}
	if c.Proof, err = tree.Consistency(ctx, s.Pool, owner, from, to); err != nil {
		return Consistency{}, fmt.Errorf("consistency from %d to %d: %w", from, to, err)
	}
	return c, nil
}
