// Package canonical is events/verify/canonical, for importers that have not moved yet.
package canonical

import "github.com/memory-ledger/ledger/events/verify/canonical"

type Object = canonical.Object

const MaxDepth = canonical.MaxDepth

var (
	Empty           = canonical.Empty
	Trusted         = canonical.Trusted
	Admit           = canonical.Admit
	Canonicalize    = canonical.Canonicalize
	AppendString    = canonical.AppendString
	ErrNotObject    = canonical.ErrNotObject
	ErrSyntax       = canonical.ErrSyntax
	ErrTooDeep      = canonical.ErrTooDeep
	ErrNumber       = canonical.ErrNumber
	ErrNoncharacter = canonical.ErrNoncharacter
)
