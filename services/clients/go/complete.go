package memoryledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/mr-tron/base58"
)

// ErrCantComplete: the later receipt is of another memory and another tree, so nothing
// links it to this receipt.
var ErrCantComplete = errors.New("memoryledger: only a later receipt of the same memory, or of the same tree, completes a receipt")

// CompleteReceipt returns a receipt of the same memory with its anchor. It also checks that
// the log still contains the tree of the receipt. The error is ErrNotAnchored while the
// memory is not anchored.
func (c *Client) CompleteReceipt(ctx context.Context, r *Receipt) (*Receipt, error) {
	if err := r.Verify(); err != nil || r.Anchor != nil {
		return r, err
	}
	var page []Memory
	query := "/memories?limit=1&cursor=" + strconv.FormatUint(r.LeafIndex, 10)
	if _, err := c.call(ctx, c.core(http.MethodGet, query), &page); err != nil {
		return nil, err
	}
	if len(page) == 0 || page[0].LeafIndex != r.LeafIndex {
		return nil, fmt.Errorf("%w: leaf %d is not in the list: it was retracted, or its page was", ErrGone, r.LeafIndex)
	}
	later, err := c.Receipt(ctx, page[0].ID)
	if err != nil {
		return nil, err
	}
	head, err := c.Head(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.grew(ctx, r.TreeSize, r.BatchRoot, head.TreeSize, head.Root); err != nil {
		return nil, err
	}
	return r.CompleteFrom(later)
}

// CompleteFrom returns the receipt with the anchor of a later one, which must be of the
// same memory or lead from the same tree. The error is ErrNotAnchored if the later one has
// no anchor either, ErrCantComplete, or a *VerificationError.
func (r *Receipt) CompleteFrom(later *Receipt) (*Receipt, error) {
	if err := errors.Join(r.Verify(), later.Verify()); err != nil {
		return nil, err
	}
	a := later.Anchor
	switch {
	case r.Anchor != nil:
		return r, nil
	case later.Entry.Owner != r.Entry.Owner:
		return nil, wrong(ErrWrongOwner, "entry.owner", "it is %s, the later receipt is of %s", r.Entry.Owner, later.Entry.Owner)
	case later.LeafIndex == r.LeafIndex && later.LeafHash != r.LeafHash:
		return nil, wrong(ErrForked, "leafHash", "it is %s, the later receipt has %s as leaf %d", r.LeafHash, later.LeafHash, r.LeafIndex)
	case later.TreeSize == r.TreeSize && later.BatchRoot != r.BatchRoot:
		return nil, wrong(ErrForked, "batchRoot", "it is %s, the later receipt has %s for %d leaves", r.BatchRoot, later.BatchRoot, r.TreeSize)
	case a == nil:
		return nil, notAnchored()
	case later.LeafIndex == r.LeafIndex:
		return later, nil
	case later.TreeSize == r.TreeSize:
		return r.with(*a, later.Consistency)
	case a.CommittedSize == r.TreeSize:
		return r.with(*a, []Hash{})
	}
	return nil, ErrCantComplete
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

// CompleteOnchain returns the receipt with an anchor that it finds on the chain, without
// the service. The chain must have a commitment to exactly the receipt's tree: from a larger
// one only the service can prove the link. The error is ErrNotAnchored if there is none, a
// *VerificationError, or ErrChainUnreachable. The issuer's program and authority are
// required.
func (r *Receipt) CompleteOnchain(ctx context.Context, rpcURL string, by Issuer) (*Receipt, error) {
	if err := r.Verify(); err != nil || r.Anchor != nil {
		return r, err
	}
	a := Anchor{ProgramID: by.ProgramID, Account: commitmentAddress(by.ProgramID, by.Authority, r.Entry.Owner), CommittedSize: r.TreeSize, CommittedRoot: r.BatchRoot}
	if a.Account == "" {
		return nil, errors.New("memoryledger: the issuer's program and authority are needed, in base58")
	}
	node := solanaNode{rpcURL, http.DefaultClient}
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
			return nil, fmt.Errorf("%w; the chain has no commitment to exactly its %d leaves", notAnchored(), r.TreeSize)
		}
		for _, s := range page {
			before = s.Signature
			if s.Err != nil {
				continue
			}
			found, passed, err := a.find(ctx, node, s.Signature, r.Entry.Owner)
			switch {
			case err != nil:
				return nil, err
			case found:
				return r.with(a, []Hash{})
			case passed:
				return nil, fmt.Errorf("%w; the chain has no commitment to exactly its %d leaves", notAnchored(), r.TreeSize)
			}
		}
	}
}

// find looks at one transaction of the account, the newest first. It fills in the anchor if
// the transaction committed its size. passed means that this transaction, and so all before
// it, committed less.
func (a *Anchor) find(ctx context.Context, node solanaNode, signature, owner string) (found, passed bool, err error) {
	var tx *solanaTransaction
	options := map[string]any{"encoding": "json", "commitment": "confirmed", "maxSupportedTransactionVersion": 0}
	if err := node.call(ctx, &tx, "getTransaction", signature, options); err != nil || tx == nil || tx.Meta == nil || tx.Meta.Err != nil {
		return false, false, err
	}
	for size, root := range tx.commitments(a, owner) {
		if size < a.CommittedSize {
			passed = true
		}
		if size != a.CommittedSize {
			continue
		}
		if root != a.CommittedRoot {
			return false, false, wrong(ErrForked, "batchRoot", "it is %s, the chain has %s for %d leaves", a.CommittedRoot, root, size)
		}
		a.TxSignature, a.Slot = signature, tx.Slot
		return true, false, nil
	}
	return false, passed, nil
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
			// A tag of 8 bytes, the owner, the size, and the root.
			if !isBase58(in.Data, 80) {
				continue
			}
			data, err := base58.Decode(in.Data)
			if err != nil || binary.LittleEndian.Uint64(data) != 1 || base58.Encode(data[8:40]) != owner ||
				name(in.Program) != a.ProgramID || len(in.Accounts) < 2 || name(in.Accounts[1]) != a.Account {
				continue
			}
			if !yield(binary.LittleEndian.Uint64(data[40:]), Hash(data[48:80])) {
				return
			}
		}
	}
}
