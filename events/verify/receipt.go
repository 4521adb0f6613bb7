// Package verify checks receipts and exports without trusting or reaching the service that
// issued them. The server, the command line, the audit and the Go client use it. It depends
// on no other package of the service, and on no Solana library; docs/audit.md does the same
// by hand.
//
// [Receipt.Verify] needs only the receipt. It checks that the entry hashes to the leaf, that
// the leaf is in the tree, and that this tree is a prefix of the committed tree.
// [Receipt.VerifyOnchain] also asks any Solana node whether that commitment is on the chain.
// [ReadExport] checks a whole log.
package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/mr-tron/base58"

	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/events/verify/leaf"
)

// Version is the version of receipts and of leaves.
const Version = 1

// MaxReceipt is the size of the largest receipt that ParseReceipt accepts.
const MaxReceipt = 4 << 20

// Hash is a SHA-256 digest. Its text is 64 lowercase hex characters.
type Hash = leaf.Hash

// Receipt proves that a memory is in its owner's log. It can be stored as JSON;
// ParseReceipt reads it back.
type Receipt struct {
	Version    int    `json:"version"`
	Entry      Entry  `json:"entry"`
	LeafHash   Hash   `json:"leafHash"`
	LeafIndex  uint64 `json:"leafIndex"`
	TreeSize   uint64 `json:"treeSize"`
	Siblings   []Hash `json:"siblings"`
	Directions []bool `json:"directions"` // true: the sibling is on the right
	BatchRoot  Hash   `json:"batchRoot"`
	// Anchor is the newest commitment on the chain. It is nil while the memory is not
	// anchored. Consistency leads from TreeSize to Anchor.CommittedSize.
	Anchor      *Anchor `json:"anchor"`
	Consistency []Hash  `json:"consistency"`
}

// Entry is the content that hashes to a leaf.
type Entry struct {
	Content  string         `json:"content"`
	Metadata jsontext.Value `json:"metadata"` // an object
	Owner    string         `json:"owner"`    // public key, base58
	Salt     string         `json:"salt"`     // 64 lowercase hex characters
	V        int            `json:"v"`
}

// Anchor locates the root of the first CommittedSize leaves on the chain.
type Anchor struct {
	Cluster       string `json:"cluster"` // genesis hash, base58
	ProgramID     string `json:"programId"`
	Account       string `json:"account"`
	TxSignature   string `json:"txSignature"`
	Slot          uint64 `json:"slot"`
	CommittedSize uint64 `json:"committedSize"`
	CommittedRoot Hash   `json:"committedRoot"`
}

// member is a member of a JSON object, and the destination of its value.
type member struct {
	name string
	into any
}

// optional is the target of a member that may be missing.
type optional struct{ into any }

// readObject reads an object with exactly these members. Only members read into a
// jsontext.Value may be null. The error is an *Error.
func readObject(raw jsontext.Value, what, prefix string, expected ...member) error {
	var values map[string]jsontext.Value // nil for null
	if err := json.Unmarshal(raw, &values); err != nil || values == nil {
		return Wrong(ErrMalformed, what, "it is not a JSON object")
	}
	has := func(m member) bool { return values[m.name] != nil }
	if what == NoReceipt && !slices.ContainsFunc(expected, has) {
		return Wrong(ErrMalformed, what, "it has none of a receipt's members")
	}
	for _, m := range expected {
		if may, ok := m.into.(optional); ok {
			if m.into = may.into; !has(m) {
				continue
			}
		}
		if !has(m) {
			return Wrong(ErrMalformed, prefix+m.name, "it is missing")
		}
		if value := values[m.name]; !decode(value, m.into) {
			return Wrong(ErrMalformed, prefix+m.name, "malformed: %.100s", value)
		}
		delete(values, m.name)
	}
	if len(values) > 0 {
		return Wrong(ErrMalformed, prefix+slices.Min(slices.Collect(maps.Keys(values))), "there is no such member")
	}
	return nil
}

// decode reports whether a value could be decoded.
func decode(value jsontext.Value, into any) bool {
	if raw, ok := into.(*jsontext.Value); ok {
		*raw = value
		return true
	}
	// Only a value of the right type is looked through: the deep arrays of a hostile file would
	// take minutes.
	return json.Unmarshal(value, into) == nil && !hasNull(value)
}

// hasNull reports whether a value, or an element of an array, is null. The decoder reads null
// as false, or as a hash of zeros.
func hasNull(value jsontext.Value) bool {
	var elements []jsontext.Value
	if value.Kind() != '[' || json.Unmarshal(value, &elements) != nil {
		return value.Kind() == 'n'
	}
	return slices.ContainsFunc(elements, func(e jsontext.Value) bool { return e.Kind() == 'n' })
}

// ParseReceipt reads the JSON of a receipt and checks its form. The error is an *Error.
// Verify checks the statements of the receipt.
func ParseReceipt(text []byte) (*Receipt, error) {
	if len(text) > MaxReceipt {
		return nil, Wrong(ErrMalformed, NoReceipt, "it has %d bytes", len(text))
	}
	r := new(Receipt)
	var entry, anchor jsontext.Value
	err := readObject(text, NoReceipt, "",
		member{"version", &r.Version}, member{"entry", &entry}, member{"leafHash", &r.LeafHash},
		member{"leafIndex", &r.LeafIndex}, member{"treeSize", &r.TreeSize}, member{"siblings", &r.Siblings},
		member{"directions", &r.Directions}, member{"batchRoot", &r.BatchRoot}, member{"anchor", &anchor},
		member{"consistency", &r.Consistency})
	if err != nil {
		return nil, err
	}
	if err := r.Entry.read(entry); err != nil {
		return nil, err
	}
	r.Anchor, err = readAnchor(anchor)
	return r, err
}

func (e *Entry) read(raw jsontext.Value) error {
	return readObject(raw, "entry", "entry.", member{"content", &e.Content}, member{"metadata", &e.Metadata},
		member{"owner", &e.Owner}, member{"salt", &e.Salt}, member{"v", &e.V})
}

// readAnchor returns nil for null.
func readAnchor(raw jsontext.Value) (*Anchor, error) {
	if raw.Kind() == 'n' {
		return nil, nil
	}
	a := new(Anchor)
	return a, readObject(raw, "anchor", "anchor.", member{"cluster", &a.Cluster}, member{"programId", &a.ProgramID},
		member{"account", &a.Account}, member{"txSignature", &a.TxSignature}, member{"slot", &a.Slot},
		member{"committedSize", &a.CommittedSize}, member{"committedRoot", &a.CommittedRoot})
}

// LeafHash computes the leaf hash. The error is an *Error.
func (e *Entry) LeafHash() (Hash, error) {
	hash, _, err := e.leafHash()
	return hash, err
}

// leafHash is LeafHash, and also returns the metadata as they are hashed.
func (e *Entry) leafHash() (hash Hash, metadata canonical.Object, err error) {
	if e.V != Version {
		return hash, metadata, Wrong(ErrMalformed, "entry.v", "%d is not a version of the leaf that this program knows", e.V)
	}
	owner, err := leaf.ParseOwner(e.Owner)
	if err != nil {
		return hash, metadata, Wrong(ErrMalformed, "entry.owner", "it is not a public key in base58")
	}
	if _, err := leaf.ParseHash(e.Salt); err != nil {
		return hash, metadata, Wrong(ErrMalformed, "entry.salt", "it is not 64 lowercase hex characters")
	}
	metadata, err = canonical.Canonicalize(e.Metadata)
	if err != nil {
		return hash, metadata, Wrong(ErrMalformed, "entry.metadata", "%v", err)
	}
	hash, err = leaf.Leaf{Memory: leaf.Memory{Content: e.Content, Metadata: metadata, Owner: owner}, Salt: e.Salt}.Hash()
	if err != nil {
		return hash, metadata, Wrong(ErrMalformed, "entry.content", "%v", err)
	}
	return hash, metadata, nil
}

// Verify checks everything in a receipt that needs no chain. It returns nil or an
// *Error that names the first wrong field. If the fault could be in one of
// several members, it names the member that does not match the others.
func (r *Receipt) Verify() error {
	if r.Version != Version {
		return Wrong(ErrMalformed, "version", "%d is not a version that this program knows", r.Version)
	}
	hash, err := r.Entry.LeafHash()
	if err != nil {
		return err
	}
	if r.LeafIndex >= r.TreeSize {
		return Wrong(ErrBadProof, "leafIndex", "%d is outside a tree of treeSize %d", r.LeafIndex, r.TreeSize)
	}
	if hash != r.LeafHash {
		if Fold(hash, r.Siblings, r.Directions) == r.BatchRoot {
			return Wrong(ErrWrongLeaf, "leafHash", "it is %s, but the entry, which the proof leads from, hashes to %s", r.LeafHash, hash)
		}
		return Wrong(ErrWrongText, "entry", "content, metadata, owner, salt and v hash to %s, leafHash is %s", hash, r.LeafHash)
	}
	if err := r.verifyInclusion(); err != nil {
		return err
	}
	if r.Anchor == nil {
		if len(r.Consistency) > 0 {
			return Wrong(ErrBadConsistency, "consistency", "there is no anchor that it could lead to")
		}
		return nil
	}
	if err := r.Anchor.verifyForm(); err != nil {
		return err
	}
	return r.verifyPrefix()
}

func (r *Receipt) verifyInclusion() error {
	given, right := Fold(r.LeafHash, r.Siblings, r.Directions), Directions(r.LeafIndex, r.TreeSize)
	takes := fmt.Sprintf("leafIndex %d in treeSize %d takes %d", r.LeafIndex, r.TreeSize, len(right))
	inPlace := slices.Equal(r.Directions, right)
	switch {
	case len(r.Directions) != len(r.Siblings) && len(r.Siblings) == len(right):
		return Wrong(ErrBadProof, "directions", "%d of them; %s", len(r.Directions), takes)
	case len(r.Directions) != len(r.Siblings):
		return Wrong(ErrBadProof, "siblings", "%d of them; %s", len(r.Siblings), takes)
	case !inPlace && given == r.BatchRoot && r.Anchor != nil && !r.anchors(given):
		return Wrong(ErrBadProof, "treeSize", "it is %d, which goes neither with directions nor with consistency", r.TreeSize)
	case !inPlace && given == r.BatchRoot:
		return Wrong(ErrBadProof, "leafIndex", "it is %d of treeSize %d, but siblings and directions lead to batchRoot from another place", r.LeafIndex, r.TreeSize)
	case len(r.Siblings) != len(right):
		return Wrong(ErrBadProof, "siblings", "%d of them; %s", len(r.Siblings), takes)
	case !inPlace:
		return Wrong(ErrBadProof, "directions", "leafIndex %d in treeSize %d takes others", r.LeafIndex, r.TreeSize)
	case given == r.BatchRoot:
		return nil
	case r.Anchor != nil && r.anchors(given):
		return Wrong(ErrWrongRoot, "batchRoot", "it is %s, but leaf and siblings fold to %s, which is what was committed", r.BatchRoot, given)
	}
	return Wrong(ErrBadProof, "siblings", "they fold to %s, batchRoot is %s", given, r.BatchRoot)
}

// anchors reports whether consistency leads from a root to the committed one.
func (r *Receipt) anchors(root Hash) bool {
	second, err := Consistency(r.TreeSize, r.Anchor.CommittedSize, root, r.Consistency)
	return err == nil && second == r.Anchor.CommittedRoot
}

// verifyForm checks an anchor as far as possible offline.
func (a *Anchor) verifyForm() error {
	for _, f := range []struct {
		name, text string
		size       int
	}{{"cluster", a.Cluster, 32}, {"programId", a.ProgramID, 32}, {"account", a.Account, 32}, {"txSignature", a.TxSignature, 64}} {
		if !leaf.IsBase58(f.text, f.size) {
			return Wrong(ErrChain, "anchor."+f.name, "it is not %d bytes in base58", f.size)
		}
	}
	if a.Slot == 0 {
		return Wrong(ErrChain, "anchor.slot", "nothing is committed in slot 0")
	}
	return nil
}

// verifyPrefix checks that the tree of batchRoot is a prefix of the committed one.
func (r *Receipt) verifyPrefix() error {
	a := r.Anchor
	if a.CommittedSize < r.TreeSize {
		return Wrong(ErrChain, "anchor.committedSize", "it is %d, less than treeSize %d", a.CommittedSize, r.TreeSize)
	}
	second, err := Consistency(r.TreeSize, a.CommittedSize, r.BatchRoot, r.Consistency)
	if err != nil {
		return Wrong(ErrBadConsistency, "consistency", "from treeSize %d to anchor.committedSize %d: %v", r.TreeSize, a.CommittedSize, err)
	}
	if second != a.CommittedRoot {
		return Wrong(ErrChain, "anchor.committedRoot", "it is %s; the proof up to anchor.committedSize %d leads to %s", a.CommittedRoot, a.CommittedSize, second)
	}
	return nil
}

// ErrNoCorrection: a receipt does not name the other one's leaf. This is no lie.
var ErrNoCorrection = errors.New("the memory does not supersede the other one")

// Corrects checks both receipts, and that this memory's metadata names the older one's leaf
// among those that it supersedes. Both must be of one owner.
func (r *Receipt) Corrects(older *Receipt) error {
	if err := r.Verify(); err != nil {
		return err
	}
	if err := older.Verify(); err != nil {
		return err
	}
	if r.Entry.Owner != older.Entry.Owner {
		return Wrong(ErrWrongOwner, "entry.owner", "they are %s and %s", r.Entry.Owner, older.Entry.Owner)
	}
	if r.TreeSize == older.TreeSize && r.BatchRoot != older.BatchRoot {
		return Wrong(ErrForked, "batchRoot", "the receipts have different roots for %d leaves", r.TreeSize)
	}
	var said struct {
		Supersedes []Hash `json:"supersedes"`
	}
	if err := json.Unmarshal(r.Entry.Metadata, &said); err != nil || !slices.Contains(said.Supersedes, older.LeafHash) || older.LeafIndex >= r.LeafIndex {
		return ErrNoCorrection
	}
	return nil
}

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
	var err error
	if a.Cluster, err = node.genesisHash(ctx); err != nil {
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
	tx, err := node.transaction(ctx, signature)
	if err != nil || tx == nil || tx.Meta == nil || tx.Meta.Err != nil {
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
			if !leaf.IsBase58(in.Data, InstructionLen) {
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
