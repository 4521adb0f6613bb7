// Package projector follows the log and keeps tables up to date: the read models, and
// the anchorer's owners.
//
//	starting ──> standby ──> replaying ──> live
//	   ^            another      behind       │
//	   │            projector    the head     │
//	   │            is active                 │
//	   └────── failed <── any error ──────────┘        stopped: ctx ended
//
// Several projectors may share the owners by partition: each takes the locks of
// a run of partitions, and stands by while another has any of them. The
// checkpoint has a row for each run, which is cut and joined as the division
// changes from one start to the next. Until the rows that a projector took over
// are at one sequence, each message is applied where it is missing: see [Vector].
//
// The log arrives in slices, contiguous runs of up to some thousand messages. A slice is
// the payload of a message of a watermill Router over [SliceSubscriber], whose middlewares
// recover from panics, bound the time, measure, trace, and end the session at an error.
// What all projections make of a slice, and the checkpoint, are committed in one
// transaction, so every message takes effect exactly once: after a crash at any point the
// rows and the checkpoint agree, and the log is followed from the checkpoint on.
//
// Every failure has one way out: the connection is dropped, and with it the locks
// and the open transaction, and after a pause the projector starts again from the
// checkpoint. A slice that can't be applied is tried again forever, and [Runner.Ready]
// says why; no message is skipped. Because the locks are released meanwhile, a
// standby of a newer build gets its chance. Tables that the log does not fit are tried
// again forever, too: a restored log or a rebuild mends them, and [Config.Renew] empties
// tables that are a cache. Missing tables are made again.
package projector
