// Package leaf is events/verify/leaf, for importers that have not moved yet.
package leaf

import "github.com/memory-ledger/ledger/events/verify/leaf"

type (
	Secret = leaf.Secret
	Memory = leaf.Memory
	Leaf   = leaf.Leaf
	Set    = leaf.Set
)

const Version = leaf.Version

var (
	DeriveSecret      = leaf.DeriveSecret
	DeriveGuestSecret = leaf.DeriveGuestSecret
	New               = leaf.New
	Commit            = leaf.Commit
)
