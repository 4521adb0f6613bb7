package receipt_test

import (
	"testing"

	"github.com/memory-ledger/ledger/anchoring/receipt"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/canonical"
	"github.com/memory-ledger/ledger/events/leaf"
	"github.com/memory-ledger/ledger/projections/tree"
)

// TestWhatEarlierBuildsAdmitted: a receipt is valid even if its metadata would be refused
// today.
func TestWhatEarlierBuildsAdmitted(t *testing.T) {
	t.Parallel()
	metadata := must(canonical.Canonicalize([]byte(`{"\ufdd0":"\ufffe\ud83f\udfff"}`)))
	l := must(leaf.New(must(leaf.DeriveSecret(filled(0x61))), leaf.Memory{Content: "old", Metadata: metadata, Owner: owner}))
	p := must(tree.InclusionOf([]events.Hash{must(l.Hash())}, 0, 1))
	raw := encode(t, &receipt.Receipt{
		Version: receipt.Version,
		Entry:   receipt.Entry{Content: l.Content, Metadata: l.Metadata.Bytes(), Owner: owner, Salt: l.Salt, V: leaf.Version},
		Leaf:    p.Leaf, TreeSize: 1, Siblings: p.Siblings, Directions: p.Directions, BatchRoot: p.Root,
		Consistency: []events.Hash{},
	})
	r, err := receipt.Parse(raw)
	if err == nil {
		err = receipt.Verify(r)
	}
	if err != nil {
		t.Error(err)
	}
}
