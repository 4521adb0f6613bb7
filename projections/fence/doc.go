// Package fence makes reads never stale. It delays a read until the read models reflect
// every event that was acknowledged before the read's request arrived, on every replica.
//
// A fence reads from the log the newest sequence that matters, and waits until the
// projection has reached it, in the owner's partition or in all partitions. The log
// answers linearizably, so that sequence covers every event that was acknowledged before.
// (On a cluster, this holds while its leader is known to be the only one; see package
// eventlog. The fence refuses a sequence that is older than the read models' position.)
// The projector announces each commit. A fence listens on its own connection and wakes
// the callers that waited for that commit. A wait ends at the caller's deadline or the
// fence's timeout with [ErrBehind]. HTTP layers answer it with 503 and Retry-After.
//
// The fence trusts a position only while the listener is connected: a database that was
// restored or replaced may hold less than this process has seen. A cache stores the
// [Head] of each read. The Head differs after the read models were exchanged.
package fence
