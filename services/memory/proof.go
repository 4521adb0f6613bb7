package memory

import (
	"context"
	"fmt"

	"github.com/memory-ledger/ledger/anchoring/chainview"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/readmodel/batches"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
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
	TreeSize    uint64       `json:"treeSize"` // the number of leaves that BatchRoot is the root of
	TxSignature *string      `json:"txSignature"`
	OnchainRoot *events.Hash `json:"onchainRoot"`
}

// Prove returns the inclusion proof of a memory against the root that its batch committed,
// or, if it is not anchored yet, against the current root of the whole log.
func (s *Service) Prove(ctx context.Context, r Reader, id string) (Proof, error) {
	m, err := s.find(ctx, r, id)
	if err != nil {
		return Proof{}, err
	}
	e, inclusion, signature, err := s.include(ctx, r, m)
	if err != nil {
		return Proof{}, err
	}
	p := Proof{BatchRoot: inclusion.Root, TreeSize: inclusion.Size, TxSignature: signature, OnchainRoot: s.onchainRoot(r.Owner, e.newest)}
	p.Proof.Leaf, p.Proof.LeafIndex = inclusion.Leaf, inclusion.Index
	p.Proof.Siblings, p.Proof.Directions = inclusion.Siblings, inclusion.Directions
	return p, nil
}

// include proves a memory. It also returns the signature of the transaction that committed
// the root, nil if there is none yet, and the extent of the log.
func (s *Service) include(ctx context.Context, r Reader, m *memories.Memory) (e *extent, p tree.Proof, signature *string, err error) {
	if e, err = s.extentWith(ctx, r, m); err != nil {
		return e, p, nil, err
	}
	size := e.leaves
	if m.Anchored {
		batch := e.newest
		if batch.ID != *m.BatchID {
			if batch, err = s.batch(ctx, *m.BatchID); err != nil {
				return e, p, nil, err
			}
		}
		size, signature = batch.Size, &batch.Signature
		defer func() {
			if err == nil && p.Root != batch.Root {
				err = fmt.Errorf("%w: the tree of %d leaves does not have the root of its batch", ErrDamaged, size)
			}
		}()
	}
	if p, err = tree.Inclusion(ctx, s.Pool, r.Owner, m.LeafIndex, size); err != nil {
		return e, p, nil, fmt.Errorf("prove leaf %d in %d: %w", m.LeafIndex, size, err)
	}
	return e, p, signature, nil
}

func (s *Service) batch(ctx context.Context, id string) (*batches.Batch, error) {
	batch, found, err := batches.ByID(ctx, s.Pool, id)
	if err == nil && !found {
		err = fmt.Errorf("batch %s is gone", id)
	}
	if err != nil {
		return nil, fmt.Errorf("find batch: %w", err)
	}
	return &batch, nil
}

// onchainRoot is the last known content of the owner's account, as seen by this process, or
// by the anchorer when it confirmed its newest batch, whichever is newer. An account only
// grows, so a node that shows less is behind.
func (s *Service) onchainRoot(owner events.Owner, newest *batches.Batch) *events.Hash {
	if newest == nil {
		return nil
	}
	seen := s.LastSeen(chainview.Account{Address: newest.Account, Program: newest.ProgramID, Owner: owner})
	if seen != nil && (seen.Size > newest.Size ||
		seen.Size == newest.Size && (newest.ConfirmedAt == nil || seen.At.After(newest.ConfirmedAt.Time()))) {
		return &seen.Root
	}
	return &newest.Root
}

type LogHead struct {
	Owner        events.Owner `json:"owner"`
	TreeSize     uint64       `json:"treeSize"`
	Memories     uint64       `json:"memories"` // leaves whose memories lists show
	Root         events.Hash  `json:"root"`
	AnchoredSize uint64       `json:"anchoredSize"`
	AnchoredRoot *events.Hash `json:"anchoredRoot"`
	TxSignature  *string      `json:"txSignature"`
	// WaitingSince is when the oldest leaf was written that is not anchored; nil if there
	// is none. Delayed means that it has waited for longer than batches usually take: a
	// batch is cut after AnchorMaxWait, and has two more to be committed.
	WaitingSince *events.Timestamp `json:"waitingSince"`
	Delayed      bool              `json:"delayed"`
}

// Head returns the size and root of the owner's log, now and as anchored.
func (s *Service) Head(ctx context.Context, r Reader) (LogHead, error) {
	e, err := s.extent(ctx, r)
	if err != nil {
		return LogHead{}, err
	}
	release, err := s.Slots.Take(ctx, r.Owner, false)
	if err != nil {
		return LogHead{}, err
	}
	present, err := s.present(ctx, r.Owner, e.leaves, e.erased)
	release()
	if err != nil {
		return LogHead{}, err
	}
	root, err := tree.Root(ctx, s.Pool, r.Owner, e.leaves)
	if err != nil {
		return LogHead{}, fmt.Errorf("root of %d leaves: %w", e.leaves, err)
	}
	head := LogHead{Owner: r.Owner, TreeSize: e.leaves, Memories: uint64(present.Count()), Root: root}
	if e.anchored() < e.leaves {
		at, found, err := memories.WrittenAt(ctx, s.Pool, r.Owner, e.anchored())
		if err != nil {
			return LogHead{}, err
		}
		if found {
			head.WaitingSince, head.Delayed = &at, s.Now().Sub(at.Time()) > 3*s.AnchorMaxWait
		}
	}
	if e.newest != nil {
		head.AnchoredSize, head.AnchoredRoot, head.TxSignature = e.newest.Size, &e.newest.Root, &e.newest.Signature
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
func (s *Service) ProveConsistency(ctx context.Context, r Reader, from, to uint64) (Consistency, error) {
	e, err := s.extent(ctx, r)
	if err != nil {
		return Consistency{}, err
	}
	if from > to || to > e.leaves {
		return Consistency{}, ErrRange
	}
	link, err := tree.Between(ctx, s.Pool, r.Owner, from, to)
	if err != nil {
		return Consistency{}, fmt.Errorf("consistency from %d to %d: %w", from, to, err)
	}
	return Consistency{From: from, To: to, FromRoot: link.FromRoot, ToRoot: link.ToRoot, Proof: link.Path}, nil
}
