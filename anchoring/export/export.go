// Package export defines the format of an owner's export, and verifies an export without
// the service.
//
// An export is lines of JSON: a header, a line for each leaf in order, and a last line
// that marks it as complete. [Verify] computes each leaf's hash from its entry, and the
// root from the hashes. docs/verify.md describes this for other languages.
package export

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memory-ledger/ledger/anchoring/receipt"
	"github.com/memory-ledger/ledger/events"
)

// Format is the name of the format below.
const Format = "memory-ledger/export/1"

// Header is the first line.
type Header struct {
	Format   string       `json:"format"`
	Owner    events.Owner `json:"owner"`
	TreeSize uint64       `json:"treeSize"`
	Root     events.Hash  `json:"root"`
	// Anchor is the newest commitment on the chain, of the first CommittedSize leaves. It
	// is nil before the first commitment.
	Anchor *receipt.Anchor `json:"anchor"`
}

// Line is the line of one leaf.
type Line struct {
	Index     uint64           `json:"index"`
	ID        string           `json:"id"`
	CreatedAt events.Timestamp `json:"createdAt"`
	Via       *events.Via      `json:"via"`
	LeafHash  events.Hash      `json:"leafHash"`
	// Entry is null if the memory was retracted, erased or damaged. Its hash stays.
	Entry *receipt.Entry `json:"entry"`
	// Damaged: what the service stores of the memory does not match its leaf.
	Damaged bool `json:"damaged,omitzero"`
}

// End is the last line.
type End struct {
	Complete bool   `json:"complete"`
	Leaves   uint64 `json:"leaves"`
}

// Finding says what is wrong with an export.
type Finding struct {
	Line    uint64 // from 1
	Problem string
}

// Error implements error.
func (f *Finding) Error() string {
	return receipt.Printable(fmt.Sprintf("line %d: %s", f.Line, f.Problem))
}

// rawLine can distinguish missing members from null members.
type rawLine struct {
	Index     *uint64           `json:"index"`
	ID        *string           `json:"id"`
	CreatedAt *events.Timestamp `json:"createdAt"`
	Via       jsontext.Value    `json:"via"`
	LeafHash  *events.Hash      `json:"leafHash"`
	Entry     jsontext.Value    `json:"entry"`
	Damaged   bool              `json:"damaged"`
}

type rawHeader struct {
	Format   *string        `json:"format"`
	Owner    *events.Owner  `json:"owner"`
	TreeSize *uint64        `json:"treeSize"`
	Root     *events.Hash   `json:"root"`
	Anchor   jsontext.Value `json:"anchor"`
}
