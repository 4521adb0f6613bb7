// Package events defines the facts of the ledger: every event type, its
// versions, and the exact bytes in which the log keeps it.
//
// A message of the log is the outcome of one command: a CloudEvents 1.0 JSON
// batch, that is, a JSON array of one or more events of one owner. Because a
// message is stored whole or not at all, events that must stand or fall
// together (a GrantConsumed and the MemoryWritten that it pays for) are
// simply put in one batch.
//
// Bytes that are in the log are never changed and never encoded again. A
// change of shape is a new version with an upcast that turns the older bytes
// into the newer form when they are read; see catalogue.go.
package events
