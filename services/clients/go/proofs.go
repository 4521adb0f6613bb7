package memoryledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memory-ledger/ledger/events/verify"
)

// InclusionProof leads from a leaf to a root.
type InclusionProof struct {
	Proof struct {
		Leaf       Hash   `json:"leaf"`
		LeafIndex  uint64 `json:"leafIndex"`
		Siblings   []Hash `json:"siblings"`
		Directions []bool `json:"directions"`
	} `json:"proof"`
	BatchRoot   Hash    `json:"batchRoot"`
	TreeSize    uint64  `json:"treeSize"`    // the number of leaves that BatchRoot is the root of
	TxSignature *string `json:"txSignature"` // nil while the memory is not anchored
	OnchainRoot *Hash   `json:"onchainRoot"`
}

// Proof returns a memory's inclusion proof. Its path and its root are checked against the
// log's head. A Receipt proves more: the text, and the anchor.
func (c *Client) Proof(ctx context.Context, id string) (*InclusionProof, error) {
	var head *LogHead
	if c.verify {
		var err error
		if head, err = c.Head(ctx); err != nil {
			return nil, err
		}
	}
	p := new(InclusionProof)
	if _, err := c.call(ctx, c.core(http.MethodGet, memoryPath(id)+"/proof"), p); err != nil || !c.verify {
		return p, err
	}
	if err := p.verifyPath(head); err != nil {
		return nil, err
	}
	if _, err := c.written.compare(id, p.Proof.Leaf, p.Proof.LeafIndex); err != nil {
		return nil, err
	}
	// The log may have grown between the two answers.
	head, err := c.headWith(ctx, head, p.TreeSize)
	if err != nil {
		return nil, err
	}
	err = c.grew(ctx, p.TreeSize, p.BatchRoot, head.TreeSize, head.Root)
	if errors.Is(err, ErrForked) {
		return nil, serviceLies(ErrWrongRoot, "batchRoot", "the log of %d leaves has another root: %v", p.TreeSize, err)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// verifyPath checks that the path leads to the batch root. head is the log's head from
// before the request.
func (p *InclusionProof) verifyPath(head *LogHead) error {
	if len(p.Proof.Siblings) != len(p.Proof.Directions) {
		return serviceLies(ErrMalformed, "proof", "%d siblings and %d directions", len(p.Proof.Siblings), len(p.Proof.Directions))
	}
	if p.Proof.LeafIndex >= p.TreeSize {
		return serviceLies(ErrBadProof, "leafIndex", "%d is outside a tree of treeSize %d", p.Proof.LeafIndex, p.TreeSize)
	}
	switch folded := verify.Fold(p.Proof.Leaf, p.Proof.Siblings, p.Proof.Directions); {
	case folded == p.BatchRoot:
	case folded == head.Root:
		return serviceLies(ErrWrongRoot, "batchRoot", "it is %s, leaf and siblings fold to %s, which is the log's", p.BatchRoot, folded)
	default:
		return serviceLies(ErrBadProof, "siblings", "they fold to %s, batchRoot is %s", folded, p.BatchRoot)
	}
	switch {
	case !slices.Equal(p.Proof.Directions, verify.Directions(p.Proof.LeafIndex, p.TreeSize)):
		return serviceLies(ErrBadProof, "directions", "leafIndex %d in treeSize %d takes others", p.Proof.LeafIndex, p.TreeSize)
	case p.TxSignature == nil && p.Proof.LeafIndex < head.AnchoredSize:
		return serviceLies(ErrStale, "txSignature", "it is null, %d leaves are anchored", head.AnchoredSize)
	case p.TxSignature == nil && p.TreeSize < head.TreeSize:
		return serviceLies(ErrStale, "treeSize", "it is %d, the log has %d leaves", p.TreeSize, head.TreeSize)
	}
	return nil
}

// Receipt returns a memory's receipt. It is checked on its own, against the log's head,
// against this client's writes, and, with WithRPC, against the chain. It can be stored as
// JSON.
func (c *Client) Receipt(ctx context.Context, id string) (*Receipt, error) {
	var head *LogHead
	if c.verify {
		var err error
		if head, err = c.Head(ctx); err != nil {
			return nil, err
		}
	}
	var text jsontext.Value
	if _, err := c.call(ctx, c.core(http.MethodGet, memoryPath(id)+"/receipt"), &text); err != nil {
		return nil, err
	}
	r, err := ParseReceipt(text)
	if err != nil {
		return nil, byService(err)
	}
	if !c.verify {
		return r, nil
	}
	if err := c.compareReceipt(ctx, r, head); err != nil {
		return nil, byService(err)
	}
	known, err := c.written.compare(id, r.LeafHash, r.LeafIndex)
	if err != nil {
		return nil, err
	}
	if known != nil {
		if err := known.entry.match(r.Entry.Content, r.Entry.Metadata); err != nil {
			return nil, err
		}
	}
	if err := c.verifyAnchor(ctx, r.Anchor, r.Entry.Owner); err != nil {
		return nil, byService(err)
	}
	return r, nil
}

// compareReceipt checks a receipt against the log's head from before the request.
func (c *Client) compareReceipt(ctx context.Context, r *Receipt, head *LogHead) error {
	if r.Entry.Owner != head.Owner {
		return verify.Wrong(ErrWrongOwner, "entry.owner", "it is %s, the log is of %s", r.Entry.Owner, head.Owner)
	}
	if r.Anchor == nil && r.LeafIndex < head.AnchoredSize {
		return verify.Wrong(ErrStale, "anchor", "it is null, %d leaves are anchored", head.AnchoredSize)
	}
	if r.Anchor == nil && r.TreeSize < head.TreeSize {
		return verify.Wrong(ErrStale, "treeSize", "it is %d, the log has %d leaves", r.TreeSize, head.TreeSize)
	}
	if r.Anchor != nil && r.Anchor.CommittedSize < head.AnchoredSize {
		return verify.Wrong(ErrStale, "anchor.committedSize", "it is %d, %d leaves are anchored", r.Anchor.CommittedSize, head.AnchoredSize)
	}
	if r.TreeSize == 0 {
		return verify.Wrong(ErrBadProof, "treeSize", "a tree without leaves has no proof")
	}
	shown := r.TreeSize
	if r.Anchor != nil {
		shown = max(shown, r.Anchor.CommittedSize)
	}
	head, err := c.headWith(ctx, head, shown)
	if err != nil {
		return err
	}
	err = c.grew(ctx, r.TreeSize, r.BatchRoot, head.TreeSize, head.Root)
	if err != nil && !errors.Is(err, ErrForked) {
		return err
	}
	if err := r.Verify(); err != nil { // its error is more precise if the receipt itself is bad
		return err
	}
	if err != nil {
		return verify.Wrong(ErrWrongRoot, "batchRoot", "the log of %d leaves has another root: %v", r.TreeSize, err)
	}
	return c.compareCommitted(ctx, r.Anchor, head)
}

// compareCommitted checks that the head's log extends the committed one. Both could have the
// leaves of a receipt in common, and then differ.
func (c *Client) compareCommitted(ctx context.Context, a *Anchor, head *LogHead) error {
	if a == nil || head.AnchoredRoot != nil && a.CommittedSize == head.AnchoredSize && a.CommittedRoot == *head.AnchoredRoot {
		return nil
	}
	err := c.grew(ctx, a.CommittedSize, a.CommittedRoot, head.TreeSize, head.Root)
	if errors.Is(err, ErrForked) {
		return verify.Wrong(ErrChain, "anchor.committedRoot", "the log does not extend the committed one: %v", err)
	}
	return err
}

// verifyAnchor checks an anchor, if there is one, with the checks that the options ask
// for.
func (c *Client) verifyAnchor(ctx context.Context, a *Anchor, owner string) error {
	if a == nil {
		return nil
	}
	if err := a.VerifyIssuer(c.issuer, owner); err != nil || c.rpcURL == "" {
		return err
	}
	_, err := a.VerifyOnchain(ctx, verify.Node{URL: c.rpcURL, HTTP: c.http}, owner)
	return err
}

// ExportOptions of Export.
type ExportOptions struct {
	// CopyTo receives a copy of the export as it arrives, for a file that `ledger
	// verify-export` and ReadExport can check. May be nil.
	CopyTo io.Writer
}

// Export streams the owner's whole log in bounded memory. It checks each leaf, then the
// root and that the export is complete, against the log's head and, with WithRPC, against
// the chain. Leaves are proven only when the export ends without an error. An error is
// the last pair. An interrupted export is ErrIncomplete: begin again.
func (c *Client) Export(ctx context.Context, o ExportOptions) iter.Seq2[ExportedMemory, error] {
	return func(yield func(ExportedMemory, error) bool) {
		if err := c.export(ctx, o, func(m ExportedMemory) bool { return yield(m, nil) }); err != nil {
			yield(ExportedMemory{}, byService(err))
		}
	}
}

// idleExport bounds how long an export may send no data.
const idleExport = time.Minute

func (c *Client) export(ctx context.Context, o ExportOptions, yield func(ExportedMemory) bool) error {
	var head *LogHead
	if c.verify {
		var err error
		if head, err = c.Head(ctx); err != nil {
			return err
		}
	}
	r := c.core(http.MethodGet, "/export")
	r.idle = idleExport
	response, err := c.open(ctx, r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var in io.Reader = response.Body
	if o.CopyTo != nil {
		in = io.TeeReader(in, o.CopyTo)
	}
	e, err := ReadExport(in)
	if err != nil {
		return err
	}
	if head != nil {
		if err := c.compareExport(ctx, &e.Header, head); err != nil {
			return err
		}
	}
	for m, err := range e.Memories() {
		if err != nil {
			return err
		}
		if !yield(m) {
			return nil
		}
	}
	return nil
}

// ImportResult is the log after an import.
type ImportResult struct {
	TreeSize uint64 `json:"treeSize"`
	Root     Hash   `json:"root"`
	Added    uint64 `json:"added"` // leaves that this call added
}

// Import adds the leaves of an export of the owner's log at another service, with the same
// hashes, so that receipts from there still verify. It needs a session. The log must be empty,
// or hold nothing but the first of these leaves: after a failure, Import of the same export
// goes on, and other memories can't be written before it ends. ErrInvalid: the export is
// wrong, and nothing was added. ErrConflict: the log holds something else. It is not repeated,
// and takes as long as it takes: bound it with the context.
func (c *Client) Import(ctx context.Context, export io.Reader) (*ImportResult, error) {
	r := c.core(http.MethodPost, "/import")
	r.lines = export
	response, err := c.attempt(ctx, &r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	done := new(ImportResult)
	return done, decode(r.name(), text, done)
}

// GiveUpImport ends an import that broke off, so that other memories can be written. The
// leaves that it added stay. ErrNotFound: there is none.
func (c *Client) GiveUpImport(ctx context.Context) error {
	_, err := c.call(ctx, c.core(http.MethodDelete, "/import"), nil)
	return err
}

// compareExport checks an export's header against the log's head from before the request.
func (c *Client) compareExport(ctx context.Context, h *ExportHeader, head *LogHead) error {
	if h.Owner != head.Owner {
		return verify.Wrong(ErrWrongOwner, "owner", "it is %s, the log is of %s", h.Owner, head.Owner)
	}
	if h.TreeSize < head.TreeSize {
		return verify.Wrong(ErrStale, "treeSize", "it is %d, the log has %d leaves", h.TreeSize, head.TreeSize)
	}
	if h.Anchor != nil && h.Anchor.CommittedSize < head.AnchoredSize || h.Anchor == nil && head.AnchoredSize > 0 {
		return verify.Wrong(ErrStale, "anchor.committedSize", "%d leaves are anchored", head.AnchoredSize)
	}
	head, err := c.headWith(ctx, head, h.TreeSize)
	if err != nil {
		return err
	}
	err = c.grew(ctx, h.TreeSize, h.Root, head.TreeSize, head.Root)
	if errors.Is(err, ErrForked) {
		return verify.Wrong(ErrWrongRoot, "root", "the log of %d leaves has another root: %v", h.TreeSize, err)
	}
	if err != nil {
		return err
	}
	return c.verifyAnchor(ctx, h.Anchor, h.Owner)
}

// CompleteReceipt returns a receipt of the same memory with its anchor, for one that was saved
// before it, or that another than the client's issuer anchored, before the owner moved. It also
// checks that the log still contains the tree of the receipt. The error is ErrNotAnchored while
// the memory is not anchored.
func (c *Client) CompleteReceipt(ctx context.Context, r *Receipt) (*Receipt, error) {
	if err := r.Verify(); err != nil || r.Anchor != nil && r.VerifyIssuer(c.issuer) == nil {
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
