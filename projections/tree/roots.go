package tree

import "github.com/memory-ledger/ledger/events"

// Split splits concatenated hashes.
func Split(packed []byte) []events.Hash {
	hashes := make([]events.Hash, len(packed)/events.HashSize)
	for i := range hashes {
		hashes[i] = events.Hash(packed[i*events.HashSize : (i+1)*events.HashSize])
	}
	return hashes
}
