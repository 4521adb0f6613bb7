// Package fence makes reads never stale: it holds a read back until the read
// models reflect every event that was acknowledged before the read's request
// arrived, and does so on every replica.
//
// The rule is one sentence: ask the log for the newest sequence that matters, and wait
// until the projection has reached it, in the owner's partition or in all of them. The
// log answers linearizably, so the sequence covers all that was acknowledged before the
// question. (On a cluster, this holds while its leader is known to be the only one; see
// package eventlog. A sequence that is older than what the read models hold is refused.)
// The projector announces each commit. A fence listens on a connection of its own and
// wakes the callers that waited for that commit. Waits end with the caller's deadline or
// the fence's own, as [ErrBehind], which HTTP layers answer with 503 and Retry-After.
//
// A position is believed only while the listener's connection stands: a database that was
// restored, or swapped for another, may hold less than this process has seen. A cache
// keeps the [Head] of what it read, which differs after the read models were exchanged.
package fence
