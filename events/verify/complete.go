package verify

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/mr-tron/base58"
)

// ErrCantComplete: the later receipt is of another memory and another tree, so nothing
// links it to this receipt.
var ErrCantComplete = errors.New("only a later receipt of the same memory, or of the same tree, completes a receipt")

// CompleteFrom returns the receipt with the anchor of a later one, which must be of the
// same memory or lead from or to the same tree. A receipt that has an anchor keeps it, unless
// the later one's is in another account: its owner has moved to another operator. The error
// is ErrNotAnchored if neither has an anchor, ErrCantComplete, or a *Error.
func (r *Receipt) CompleteFrom(later *Receipt) (*Receipt, error) {
	if err := errors.Join(r.Verify(), later.Verify()); err != nil {
		return nil, err
	}
	a := later.Anchor
	switch {
	case r.Anchor != nil && (a == nil || a.Account == r.Anchor.Account && a.Cluster == r.Anchor.Cluster):
		return r, nil
	case later.Entry.Owner != r.Entry.Owner:
		return nil, Wrong(ErrWrongOwner, "entry.owner", "it is %s, the later receipt is of %s", r.Entry.Owner, later.Entry.Owner)
	case later.LeafIndex == r.LeafIndex && later.LeafHash != r.LeafHash:
		return nil, Wrong(ErrForked, "leafHash", "it is %s, the later receipt has %s as leaf %d", r.LeafHash, later.LeafHash, r.LeafIndex)
	case later.TreeSize == r.TreeSize && later.BatchRoot != r.BatchRoot:
		return nil, Wrong(ErrForked, "batchRoot", "it is %s, the later receipt has %s for %d leaves", r.BatchRoot, later.BatchRoot, r.TreeSize)
	case a == nil:
		return nil, notAnchored()
	case later.LeafIndex == r.LeafIndex:
		return later, nil
	case later.TreeSize == r.TreeSize:
		return r.with(*a, later.Consistency)
	}
	if t, leads := r.leadsTo(a.CommittedSize); leads {
		return r.with(*a, t.consistency)
	}
	return nil, ErrCantComplete
}

// led is a tree that a receipt leads to.
type led struct {
	field       string // of the receipt
	root        Hash
	consistency []Hash // from the receipt's tree
}

// leadsTo returns the tree of a size, if the receipt leads to it: its own, or the one that it
// is anchored with.
func (r *Receipt) leadsTo(size uint64) (t led, leads bool) {
	switch {
	case size == r.TreeSize:
		return led{"batchRoot", r.BatchRoot, []Hash{}}, true
	case r.Anchor != nil && size == r.Anchor.CommittedSize:
		return led{"anchor.committedRoot", r.Anchor.CommittedRoot, r.Consistency}, true
	}
	return led{}, false
}

// with returns the receipt with an anchor, verified.
func (r *Receipt) with(a Anchor, consistency []Hash) (*Receipt, error) {
	done := *r
	done.Anchor, done.Consistency = &a, consistency
	if err := done.Verify(); err != nil {
		return nil, err
	}
	return &done, nil
}

// CompleteOnchain returns the receipt with an issuer's anchor that it finds on the chain,
// without the service. The chain must have a commitment to exactly the receipt's tree, or to
// the one that another operator, from whom the owner moved, has anchored it with: from a
// larger one only the service can prove the link. The error is ErrNotAnchored if there is
// none, a *Error, or ErrUnreachable. The issuer's program and authority are required.
func (r *Receipt) CompleteOnchain(ctx context.Context, rpcURL string, by Issuer) (*Receipt, error) {
	a := Anchor{ProgramID: by.ProgramID, Account: CommitmentAddress(by.ProgramID, by.Authority, r.Entry.Owner)}
	if err := r.Verify(); err != nil || r.Anchor != nil && r.Anchor.Account == a.Account {
		return r, err
	}
	if a.Account == "" {
		return nil, errors.New("the issuer's program and authority are needed, in base58")
	}
	node := Node{rpcURL, http.DefaultClient}
	if err := node.call(ctx, &a.Cluster, "getGenesisHash"); err != nil {
		return nil, err
	}
	for before := ""; ; {
		options := map[string]any{"commitment": "finalized"}
		if before != "" {
			options["before"] = before
		}
		var page []struct {
			Signature string
			Err       any
		}
		if err := node.call(ctx, &page, "getSignaturesForAddress", a.Account, options); err != nil {
			return nil, err
		}
		if len(page) == 0 {
			return nil, r.notCommitted()
		}
		for _, s := range page {
			before = s.Signature
			if s.Err != nil {
				continue
			}
			done, passed, err := r.find(ctx, node, a, s.Signature)
			switch {
			case err != nil || done != nil:
				return done, err
			case passed:
				return nil, r.notCommitted()
			}
		}
	}
}

func (r *Receipt) notCommitted() error {
	return fmt.Errorf("%w; the chain has no commitment to exactly its %d leaves", notAnchored(), r.TreeSize)
}

// find looks at one transaction of the account, the newest first. It returns the receipt with
// the anchor if the transaction committed a tree that the receipt leads to. passed means that
// this transaction, and so all before it, committed less.
func (r *Receipt) find(ctx context.Context, node Node, a Anchor, signature string) (done *Receipt, passed bool, err error) {
	var tx *solanaTransaction
	options := map[string]any{"encoding": "json", "commitment": "confirmed", "maxSupportedTransactionVersion": 0}
	if err := node.call(ctx, &tx, "getTransaction", signature, options); err != nil || tx == nil || tx.Meta == nil || tx.Meta.Err != nil {
		return nil, false, err
	}
	for size, root := range tx.commitments(&a, r.Entry.Owner) {
		passed = passed || size < r.TreeSize
		t, leads := r.leadsTo(size)
		if !leads {
			continue
		}
		if root != t.root {
			return nil, false, Wrong(ErrForked, t.field, "it is %s, the chain has %s for %d leaves", t.root, root, size)
		}
		a.TxSignature, a.Slot, a.CommittedSize, a.CommittedRoot = signature, tx.Slot, size, root
		done, err = r.with(a, t.consistency)
		return done, false, err
	}
	return nil, passed, nil
}

// commitments yields what a transaction committed to an anchor's account.
func (tx *solanaTransaction) commitments(a *Anchor, owner string) func(yield func(uint64, Hash) bool) {
	keys := tx.Transaction.Message.AccountKeys
	name := func(i int) string {
		if i < 0 || i >= len(keys) {
			return ""
		}
		return keys[i]
	}
	return func(yield func(uint64, Hash) bool) {
		for _, in := range tx.Transaction.Message.Instructions {
			if !IsBase58(in.Data, InstructionLen) {
				continue
			}
			data, _ := base58.Decode(in.Data) // checked above
			commit, err := DecodeCommit(data)
			if err != nil || base58.Encode(commit.Owner[:]) != owner ||
				name(in.Program) != a.ProgramID || len(in.Accounts) < 2 || name(in.Accounts[1]) != a.Account {
				continue
			}
			if !yield(commit.Size, commit.Root) {
				return
			}
		}
	}
}
