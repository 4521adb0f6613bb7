// Package logtest makes names for tests of what uses the log.
package logtest

import (
	"crypto/rand"

	"github.com/memory-ledger/ledger/events"
)

// CommandID returns a fresh command id.
func CommandID() string { return "command-" + rand.Text() }

// Owner returns a random owner.
func Owner() events.Owner {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	return events.OwnerFromBytes(key)
}
