// Package export is the form of an owner's export, and its check without the service.
//
// An export is lines of JSON: a header, a line for each leaf in order, and a last line
// that says that it is whole. [Verify] computes each leaf's hash from its entry and the
// root from the hashes. docs/verify.md describes it for other languages.
package export

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memory-ledger/ledger/anchoring/receipt"
	"github.com/memory-ledger/ledger/events"
)

// Format names the form below.
const Format = "memory-ledger/export/1"

// Header is the first line.
type Header struct {
	Format   string       `json:"format"`
	Owner    events.Owner `json:"owner"`
	TreeSize uint64       `json:"treeSize"`
	Root     events.Hash  `json:"root"`
	// Anchor is the newest commitment on the chain: of the first CommittedSize leaves.
	// Nil before there is one.
	Anchor *receipt.Anchor `json:"anchor"`
}

// Line is a leaf.
type Line struct {
	Index     uint64           `json:"index"`
	ID        string           `json:"id"`
	CreatedAt events.Timestamp `json:"createdAt"`
	Via       *events.Via      `json:"via"`
	LeafHash  events.Hash      `json:"leafHash"`
	// Entry is null where the memory was retracted or erased. Its hash stays.
	Entry *receipt.Entry `json:"entry"`
}

// End is the last line.
type End struct {
	Complete bool   `json:"complete"`
	Leaves   uint64 `json:"leaves"`
}

// Finding is what is wrong with an export.
type Finding struct {
	Line    uint64 // from 1
	Problem string
}

// Error implements error.
func (f *Finding) Error() string { return fmt.Sprintf("line %d: %s", f.Line, f.Problem) }

// rawLine tells members that are missing from those that are null.
type rawLine struct {
	Index     *uint64           `json:"index"`
	ID        *string           `json:"id"`
	CreatedAt *events.Timestamp `json:"createdAt"`
	Via       jsontext.Value    `json:"via"`
	LeafHash  *events.Hash      `json:"leafHash"`
	Entry     jsontext.Value    `json:"entry"`
}

type rawHeader struct {
	Format   *string        `json:"format"`
	Owner    *events.Owner  `json:"owner"`
	TreeSize *uint64        `json:"treeSize"`
	Root     *events.Hash   `json:"root"`
	Anchor   jsontext.Value `json:"anchor"`
}
