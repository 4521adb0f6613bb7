package receipt

import (
	"slices"

	"github.com/mr-tron/base58"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/canonical"
	"github.com/memory-ledger/ledger/events/leaf"
)

// Verify checks everything in a receipt that can be checked without the chain. It returns
// nil or a *Finding that names the first wrong member. If one of several members must be
// wrong, it names the one that does not match the others.
func Verify(r *Receipt) error {
	if r.Version != Version {
		return wrong("version", "%d is not a version that this program knows; it knows %d", r.Version, Version)
	}
	hash, err := EntryHash(&r.Entry)
	if err != nil {
		return err
	}
	if r.LeafIndex >= r.TreeSize {
		return wrong("leafIndex", "%d is outside a tree of treeSize %d", r.LeafIndex, r.TreeSize)
	}
	if hash != r.Leaf {
		if r.fold(hash, r.Directions) == r.BatchRoot {
			return wrong("leafHash", "it is %s, but the entry, which the proof leads from, hashes to %s", r.Leaf, hash)
		}
		return wrong("entry", "content, metadata, owner, salt and v hash to %s, leafHash is %s", hash, r.Leaf)
	}
	if err := r.inclusion(); err != nil {
		return err
	}
	if r.Anchor == nil {
		if len(r.Consistency) > 0 {
			return wrong("consistency", "there is no anchor that it could lead to")
		}
		return nil
	}
	if err := r.Anchor.Form(); err != nil {
		return err
	}
	return r.prefix()
}

// EntryHash computes the leaf hash of an entry. The error is a *Finding.
func EntryHash(e *Entry) (events.Hash, error) {
	if e.V != leaf.Version {
		return events.Hash{}, wrong("entry.v", "%d is not a version of the leaf that this program knows", e.V)
	}
	if _, err := events.ParseOwner(string(e.Owner)); err != nil {
		return events.Hash{}, wrong("entry.owner", "it is not a public key in base58")
	}
	if _, err := events.ParseHash(e.Salt); err != nil {
		return events.Hash{}, wrong("entry.salt", "it is not 64 lowercase hex characters")
	}
	metadata, err := canonical.Canonicalize(e.Metadata)
	if err != nil {
		return events.Hash{}, wrong("entry.metadata", "%v", err)
	}
	hash, err := leaf.Leaf{Memory: leaf.Memory{Content: e.Content, Metadata: metadata, Owner: e.Owner}, Salt: e.Salt}.Hash()
	if err != nil {
		return events.Hash{}, wrong("entry.content", "%v", err)
	}
	return hash, nil
}

// inclusion checks that the leaf is in the tree of batchRoot.
func (r *Receipt) inclusion() error {
	given := r.fold(r.Leaf, r.Directions)
	right := directions(r.LeafIndex, r.TreeSize)
	switch {
	case len(r.Directions) != len(r.Siblings) && len(r.Siblings) == len(right):
		return wrong("directions", "%d of them for %d siblings", len(r.Directions), len(r.Siblings))
	case len(r.Directions) != len(r.Siblings):
		return wrong("siblings", "%d of them; leafIndex %d in treeSize %d takes %d", len(r.Siblings), r.LeafIndex, r.TreeSize, len(right))
	case !slices.Equal(r.Directions, right) && given == r.BatchRoot:
		return r.misplaced()
	case len(r.Siblings) != len(right):
		return wrong("siblings", "%d of them; leafIndex %d in treeSize %d takes %d", len(r.Siblings), r.LeafIndex, r.TreeSize, len(right))
	case !slices.Equal(r.Directions, right):
		return wrong("directions", "leafIndex %d in treeSize %d takes others", r.LeafIndex, r.TreeSize)
	case given == r.BatchRoot:
		return nil
	}
	if first, _, err := consistency(r.TreeSize, r.committedSize(), given, r.Consistency); r.Anchor != nil && err == nil && first == given {
		return wrong("batchRoot", "it is %s, but leaf and siblings fold to %s, which is what was committed", r.BatchRoot, given)
	}
	return wrong("siblings", "they fold to %s, batchRoot is %s", given, r.BatchRoot)
}

// misplaced returns the finding for siblings and directions that lead to the root from
// another leaf position.
func (r *Receipt) misplaced() error {
	if r.Anchor != nil {
		first, second, err := consistency(r.TreeSize, r.committedSize(), r.BatchRoot, r.Consistency)
		if err != nil || first != r.BatchRoot || second != r.Anchor.CommittedRoot {
			return wrong("treeSize", "it is %d, which goes neither with directions nor with consistency", r.TreeSize)
		}
	}
	return wrong("leafIndex", "it is %d of treeSize %d, but siblings and directions lead to batchRoot from another place", r.LeafIndex, r.TreeSize)
}

func (r *Receipt) committedSize() uint64 {
	if r.Anchor == nil {
		return 0
	}
	return r.Anchor.CommittedSize
}

// Form checks all that can be checked of an anchor offline. The error is a *Finding.
func (a *Anchor) Form() error {
	for _, f := range []struct {
		name, text string
		bytes      int
	}{
		{"cluster", a.Cluster, 32}, {"programId", a.ProgramID, 32}, {"account", a.Account, 32}, {"txSignature", a.TxSignature, 64},
	} {
		if !isBase58(f.text, f.bytes) {
			return wrong("anchor."+f.name, "it is not %d bytes in base58", f.bytes)
		}
	}
	if a.Slot == 0 {
		return wrong("anchor.slot", "nothing is committed in slot 0")
	}
	return nil
}

// isBase58 reports whether a text is the base58 form of size bytes. Longer texts are
// refused before decoding, because decoding takes quadratic time.
func isBase58(text string, size int) bool {
	if len(text) > size*11/8 {
		return false
	}
	raw, err := base58.Decode(text)
	return err == nil && len(raw) == size && base58.Encode(raw) == text
}

// prefix checks that the tree of batchRoot is a prefix of the committed one.
func (r *Receipt) prefix() error {
	a := r.Anchor
	if a.CommittedSize < r.TreeSize {
		return wrong("anchor.committedSize", "it is %d, less than treeSize %d", a.CommittedSize, r.TreeSize)
	}
	if a.CommittedSize == r.TreeSize {
		switch {
		case len(r.Consistency) > 0:
			return wrong("consistency", "there is nothing to prove: anchor.committedSize is treeSize %d", r.TreeSize)
		case a.CommittedRoot != r.BatchRoot:
			return wrong("anchor.committedRoot", "it is %s, batchRoot of the same size %s", a.CommittedRoot, r.BatchRoot)
		}
		return nil
	}
	first, second, err := consistency(r.TreeSize, a.CommittedSize, r.BatchRoot, r.Consistency)
	switch {
	case err != nil:
		return wrong("consistency", "%v, from treeSize %d to anchor.committedSize %d", err, r.TreeSize, a.CommittedSize)
	case first != r.BatchRoot:
		return wrong("consistency", "from treeSize %d to anchor.committedSize %d it leads to %s, not to batchRoot %s", r.TreeSize, a.CommittedSize, first, r.BatchRoot)
	case second != a.CommittedRoot:
		return wrong("anchor.committedRoot", "it is %s; consistency up to anchor.committedSize %d leads to %s", a.CommittedRoot, a.CommittedSize, second)
	}
	return nil
}
